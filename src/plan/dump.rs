//! A plan as text, for people and for golden tests: the same plan always gives the same text.

use super::format::{Basis, Buffer, Call, FrameSchedule, Operand, Operator, Plan, Port, Space, Tenant, View};
use crate::ids::{BufferId, OperatorId, SegmentId, StreamId, SyncId, TenantId};
use crate::primitive::{Primitive, Region, Window};
use std::fmt::{self, Display, Formatter, Write};

/// The text of a plan. It need not be checked: ids are printed, never followed.
pub fn dump(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{}", Dump(plan));
    text
}

struct Dump<'a>(&'a Plan);

impl Display for Dump<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        writeln!(f, "plan {:?} by searcher {:?}", plan.task_set, plan.searcher)?;
        writeln!(f, "board {}\nsource {}", plan.board, plan.source)?;
        if let Some(kernels) = plan.kernels {
            writeln!(f, "kernels {kernels}")?;
        }
        writeln!(
            f,
            "memory: arena {}, persistent {}, inputs {} and outputs {} bytes",
            plan.arena_bytes, plan.persistent_bytes, plan.input_bytes, plan.output_bytes
        )?;
        for (i, camera) in plan.cameras.iter().enumerate() {
            let (w, h) = (camera.max_width, camera.max_height);
            writeln!(f, "camera cam{i} {:?}: up to {w}x{h}, {} bytes", camera.name, camera.bytes)?;
        }
        for (i, tenant) in plan.tenants.iter().enumerate() {
            dump_tenant(f, TenantId(i as u16), tenant)?;
        }
        for (i, file) in plan.weight_files.iter().enumerate() {
            writeln!(f, "weights {i}: {} bytes, {}", file.bytes, file.digest)?;
        }
        for (i, section) in plan.sections.iter().enumerate() {
            writeln!(
                f,
                "section w{i}: weights {} at {}, {} bytes",
                section.file, section.offset, section.bytes
            )?;
        }
        for (i, buffer) in plan.buffers.iter().enumerate() {
            writeln!(f, "buffer {}: {}", BufferId(i as u32), Place(buffer))?;
        }
        for (i, operator) in plan.operators.iter().enumerate() {
            dump_operator(f, OperatorId(i as u32), operator)?;
        }
        for (i, schedule) in plan.cycle.iter().enumerate() {
            writeln!(f, "frame {i} of {}: tenants {}", plan.cycle.len(), List(&schedule.tenants))?;
            dump_streams(f, plan, schedule)?;
            dump_prediction(f, plan, i, schedule)?;
        }
        Ok(())
    }
}

/// Items with a blank between them, `-` for none.
struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { " " } else { "" })?;
        }
        if self.0.is_empty() { f.write_str("-") } else { Ok(()) }
    }
}

/// Where a buffer lies.
struct Place<'a>(&'a Buffer);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (space, offset) = match self.0.space {
            Space::Arena { offset } => ("arena", offset),
            Space::Persistent { offset } => ("persistent", offset),
            Space::Input { offset } => ("input", offset),
            Space::Output { offset } => ("output", offset),
            Space::Camera(camera) => return write!(f, "{camera}, {} bytes", self.0.bytes),
            Space::Weights(section) => return write!(f, "{section}, {} bytes", self.0.bytes),
        };
        write!(f, "{space} {offset}..{}", offset.saturating_add(self.0.bytes))
    }
}

/// A view: type, shape, place; strides where the elements are not dense in C order.
struct Viewed<'a>(&'a View);

impl Display for Viewed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let View {
            buffer,
            origin,
            dtype,
            layout,
        } = self.0;
        write!(f, "{buffer}+{origin} {dtype} {}", layout.shape)?;
        if layout.is_contiguous() {
            return Ok(());
        }
        f.write_str(" strides [")?;
        for (i, stride) in layout.strides().iter().enumerate() {
            write!(f, "{}{stride}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")
    }
}

fn dump_tenant(f: &mut Formatter<'_>, id: TenantId, tenant: &Tenant) -> fmt::Result {
    write!(f, "tenant {id} {:?}: model {:?}, {}", tenant.name, tenant.model, tenant.kind.name())?;
    write!(f, ", every {} frames from {}", tenant.rate.divisor, tenant.rate.phase)?;
    write!(f, ", priority {}", tenant.urgency.priority)?;
    if let Some(deadline) = tenant.urgency.deadline {
        write!(f, ", deadline {deadline}")?;
    }
    writeln!(f, ", cameras {}, sources {}", List(&tenant.cameras), List(&tenant.sources))?;
    for (direction, ports) in [("input", &tenant.inputs), ("result", &tenant.outputs)] {
        ports.iter().try_for_each(|port| dump_port(f, direction, port))?;
    }
    Ok(())
}

fn dump_port(f: &mut Formatter<'_>, direction: &str, port: &Port) -> fmt::Result {
    write!(f, "  {direction} {:?}: {:?} of picture {}, ", port.name, port.role, port.image)?;
    write!(f, "{}, {} labels", Viewed(&port.view), port.labels.len())?;
    if let Some(fit) = port.fit {
        write!(f, ", {fit:?}")?;
    }
    writeln!(f, "{}", if port.widened { ", widened to int64" } else { "" })
}

fn dump_operator(f: &mut Formatter<'_>, id: OperatorId, operator: &Operator) -> fmt::Result {
    let (tactic, class) = (operator.tactic, operator.class);
    write!(f, "operator {id} {} {:?}: {:?}", operator.tenant, operator.name, tactic.kernel)?;
    write!(f, ", tile {}x{}", tactic.tile.0, tactic.tile.1)?;
    if tactic.variant > 0 {
        write!(f, " variant {}", tactic.variant)?;
    }
    write!(f, ", width {}", operator.width)?;
    writeln!(f, ", {:?}, split K {}", class.family, class.split_k)?;
    for (i, call) in operator.calls.iter().enumerate() {
        dump_call(f, i, call, i + 1 == operator.calls.len())?;
    }
    for view in &operator.outputs {
        writeln!(f, "  to {}", Viewed(view))?;
    }
    if operator.chunks.len() > 1 {
        for (i, Region { batch, rows }) in operator.chunks.iter().enumerate() {
            writeln!(
                f,
                "  chunk {i}: batch {}..{}, rows {}..{}",
                batch.start, batch.end, rows.start, rows.end
            )?;
        }
    }
    Ok(())
}

fn dump_call(f: &mut Formatter<'_>, index: usize, call: &Call, last: bool) -> fmt::Result {
    write!(f, "  %{index} = {}(", Named(&call.primitive))?;
    for (i, input) in call.inputs.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        match input {
            Operand::View(view) => write!(f, "{}", Viewed(view))?,
            Operand::Inner(j) => write!(f, "%{j}")?,
        }
    }
    write!(f, ") {} {}", call.dtype, call.shape)?;
    writeln!(
        f,
        "{}",
        if last {
            String::new()
        } else {
            format!(", {:?}", call.rounding).to_lowercase()
        }
    )
}

/// A primitive with its attributes; windows in short.
struct Named<'a>(&'a Primitive);

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Primitive::Conv { window, groups } => write!(f, "Conv[{}, groups {groups}]", Windowed(window)),
            Primitive::ConvTranspose { window, groups } => write!(f, "ConvTranspose[{}, groups {groups}]", Windowed(window)),
            Primitive::Pool { kind, window } => write!(f, "Pool[{kind:?}, {}]", Windowed(window)),
            Primitive::Unary(unary) => write!(f, "{unary:?}"),
            Primitive::Binary(binary) => write!(f, "{binary:?}"),
            other => write!(f, "{other:?}"),
        }
    }
}

struct Windowed<'a>(&'a Window);

impl Display for Windowed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let window = self.0;
        let axes = usize::from(window.axes).min(3);
        for (name, values) in [
            ("kernel", &window.kernel),
            (" stride", &window.stride),
            (" dilation", &window.dilation),
            (" pads", &window.pad_begin),
            (" and", &window.pad_end),
        ] {
            write!(f, "{name} ")?;
            for (i, value) in values[..axes].iter().enumerate() {
                write!(f, "{}{value}", if i > 0 { "x" } else { "" })?;
            }
        }
        Ok(())
    }
}

/// Segments stream by stream, in issue order, each with the sync points it waits for.
fn dump_streams(f: &mut Formatter<'_>, plan: &Plan, schedule: &FrameSchedule) -> fmt::Result {
    for (s, stream) in plan.streams.iter().enumerate() {
        let id = StreamId(s as u16);
        write!(f, "  stream {id}, priority {}", stream.priority)?;
        match stream.units {
            0 => writeln!(f)?,
            units => writeln!(f, ", on {units} units of its own")?,
        }
        for (i, segment) in schedule.segments.iter().enumerate().filter(|(_, segment)| segment.stream == id) {
            write!(f, "    {} of {}:", SegmentId(i as u32), segment.tenant)?;
            for step in &segment.steps {
                let chunked = plan.operators.get(step.operator.index()).is_none_or(|o| o.chunks.len() != 1);
                match chunked {
                    true => write!(f, " {}[{}]", step.operator, step.chunk)?,
                    false => write!(f, " {}", step.operator)?,
                }
            }
            writeln!(f)?;
        }
    }
    for (i, sync) in schedule.syncs.iter().enumerate() {
        writeln!(f, "  {}: {} before {}", SyncId(i as u32), List(&sync.after), List(&sync.before))?;
    }
    Ok(())
}

fn dump_prediction(f: &mut Formatter<'_>, plan: &Plan, frame: usize, schedule: &FrameSchedule) -> fmt::Result {
    let Some(prediction) = plan.prediction.frames.get(frame) else {
        return Ok(());
    };
    let basis = match plan.prediction.basis {
        Basis::Estimated => "estimated",
        Basis::Measured => "measured",
    };
    writeln!(f, "  predicted {} ({basis})", prediction.total)?;
    for (i, (tenant, finish)) in schedule.tenants.iter().zip(&prediction.finish).enumerate() {
        let missed = prediction.misses.iter().any(|&m| usize::from(m) == i);
        write!(f, "    {tenant} ends at {finish} ({basis})")?;
        writeln!(f, "{}", if missed { ", after its deadline" } else { "" })?;
    }
    Ok(())
}
