//! What calls return, and what more is known of the last failure.

use super::guard::types::{Error, MESSAGE};
use crate::error::{Fault, RunError};
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt;

/// Declares the statuses with their numbers and names.
macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal $c:literal,)*) => {
        /// What a call returns. The numbers are stable and never used for something else; those up to 9 are
        /// [`RunError::number`]'s.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Status {
            $($(#[$doc])* $name = $number,)*
        }

        impl Status {
            /// All of them.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The status' name in the header.
            pub const fn name(self) -> &'static CStr {
                match self {
                    $(Status::$name => $c,)*
                }
            }
        }
    };
}

statuses! {
    /// Done.
    Ok = 0 c"PLATOON_OK",
    /// All slots are in flight or unreleased.
    Busy = 1 c"PLATOON_BUSY",
    /// Not legal now.
    State = 2 c"PLATOON_STATE",
    /// The engine is faulted.
    Faulted = 3 c"PLATOON_FAULTED",
    /// No ticket or draft of this engine, or one that is spent.
    Ticket = 4 c"PLATOON_TICKET",
    /// No such tenant, camera, task set or port.
    Unknown = 5 c"PLATOON_UNKNOWN",
    /// An image does not fit its camera.
    Image = 6 c"PLATOON_IMAGE",
    /// A tensor input has the wrong length.
    Input = 7 c"PLATOON_INPUT",
    /// Not finished within the given time.
    Timeout = 8 c"PLATOON_TIMEOUT",
    /// A slot that is not at hand.
    Slot = 9 c"PLATOON_SLOT",
    /// A pointer is null.
    Null = 10 c"PLATOON_NULL",
    /// A struct has a size that it never had, or sets fields that the library does not know.
    Size = 11 c"PLATOON_SIZE",
    /// The header's ABI is not one of the library's.
    Version = 12 c"PLATOON_VERSION",
    /// No open engine has this handle.
    Handle = 13 c"PLATOON_HANDLE",
    /// A value is out of its range.
    Argument = 14 c"PLATOON_ARGUMENT",
    /// The plans are missing or not in order.
    Load = 15 c"PLATOON_LOAD",
    /// The machine cannot run the plans.
    Prepare = 16 c"PLATOON_PREPARE",
    /// No more engines can be open at once.
    Limit = 17 c"PLATOON_LIMIT",
    /// A bug of the library, contained: the engine can only be closed.
    Internal = 18 c"PLATOON_INTERNAL",
}

impl From<RunError> for Status {
    fn from(error: RunError) -> Status {
        match error {
            RunError::Busy => Status::Busy,
            RunError::State => Status::State,
            RunError::Faulted(_) => Status::Faulted,
            RunError::Ticket => Status::Ticket,
            RunError::Unknown => Status::Unknown,
            RunError::Image(..) => Status::Image,
            RunError::Input(_) => Status::Input,
            RunError::Timeout => Status::Timeout,
            RunError::Slot(_) => Status::Slot,
        }
    }
}

/// A line of text of fixed room, always ended by a zero; what does not fit is cut off, and control characters become blanks.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; MESSAGE],
    len: usize,
}

impl Text {
    const EMPTY: Text = Text {
        bytes: [0; MESSAGE],
        len: 0,
    };
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars().map(plain) {
            let room = &mut self.bytes[self.len..MESSAGE - 1];
            // Nothing may follow a text that was cut.
            let room = room.get_mut(..c.len_utf8()).ok_or(fmt::Error)?;
            self.len += c.encode_utf8(room).len();
        }
        Ok(())
    }
}

/// What a line for people shows of a character: blanks for what would break the line or steer a terminal.
pub(super) fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Why a call failed. Takes no memory.
#[derive(Clone, Copy)]
pub(super) struct Failure {
    pub(super) status: Status,
    cause: Option<RunError>,
    tenant: Option<u16>,
    message: Text,
}

impl Failure {
    pub(super) fn new(status: Status, message: fmt::Arguments<'_>) -> Failure {
        let mut text = Text::EMPTY;
        // A message that is cut is still one.
        let _ = fmt::write(&mut text, message);
        Failure {
            status,
            cause: None,
            tenant: None,
            message: text,
        }
    }

    /// The same failure, of a call about this tenant.
    pub(super) fn of_tenant(self, tenant: u32) -> Failure {
        Failure {
            tenant: u16::try_from(tenant).ok(),
            ..self
        }
    }

    /// The failure as the caller reads it.
    fn detail(&self) -> Error {
        let mut error = Error {
            status: self.status as i32,
            tenant: self.tenant.map_or(-1, i32::from),
            segment: -1,
            camera: -1,
            ..Error::default()
        };
        match self.cause {
            Some(RunError::Faulted(fault)) => {
                let about = Blame::of(fault);
                (error.tenant, error.segment, error.frame) = (about.tenant, about.segment, about.frame);
                (error.fault, error.device_code, error.suspects) = (fault.number(), about.device_code, about.suspects);
            }
            Some(RunError::Image(camera, _)) => error.camera = i32::from(camera.0),
            _ => {}
        }
        for (to, &from) in error.message.iter_mut().zip(&self.message.bytes) {
            *to = from as c_char;
        }
        error
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure {
            cause: Some(error),
            ..Failure::new(error.into(), format_args!("{error}"))
        }
    }
}

/// Who is to blame for a fault.
pub(super) struct Blame {
    pub(super) tenant: i32,
    pub(super) segment: i32,
    pub(super) frame: u64,
    pub(super) device_code: u32,
    pub(super) suspects: u32,
}

impl Blame {
    pub(super) fn of(fault: Fault) -> Blame {
        let (tenant, segment, frame, device_code, suspects) = match fault {
            Fault::Hang { tenant, segment, frame } | Fault::Panic { tenant, segment, frame } => (tenant, segment, frame, 0, 1),
            Fault::Device {
                tenant,
                segment,
                frame,
                code,
                suspects,
            } => (tenant, segment, frame, code, suspects),
        };
        Blame {
            tenant: i32::from(tenant.0),
            segment: i32::try_from(segment.0).unwrap_or(i32::MAX),
            frame,
            device_code,
            suspects: u32::from(suspects),
        }
    }
}

thread_local! {
    // Without a destructor, so that a thread's first failure registers none: that would take memory.
    static LAST: Cell<Option<Failure>> = const { Cell::new(None) };
}

/// Keeps the calling thread's last failure.
pub(super) fn remember(failure: Failure) {
    LAST.set(Some(failure));
}

/// The calling thread's last failure; a struct of [`Status::Ok`] if it had none.
pub(super) fn last() -> Error {
    LAST.get().map_or_else(
        || Error {
            tenant: -1,
            segment: -1,
            camera: -1,
            ..Error::default()
        },
        |failure| failure.detail(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ImageFault;
    use crate::ids::{CameraId, SegmentId, SlotId, TenantId};

    #[test]
    fn errors_of_the_runtime_keep_their_numbers() {
        let fault = Fault::Device {
            tenant: TenantId(3),
            segment: SegmentId(9),
            frame: 12,
            code: 700,
            suspects: 2,
        };
        let errors = [
            RunError::Busy,
            RunError::State,
            RunError::Faulted(fault),
            RunError::Ticket,
            RunError::Unknown,
            RunError::Image(CameraId(1), ImageFault::Odd),
            RunError::Input(0),
            RunError::Timeout,
            RunError::Slot(SlotId(0)),
        ];
        for error in errors {
            assert_eq!(Status::from(error) as u32, error.number(), "{error:?}");
        }
        let detail = Failure::from(RunError::Faulted(fault)).detail();
        assert_eq!((detail.status, detail.tenant, detail.segment, detail.frame), (3, 3, 9, 12));
        assert_eq!((detail.fault, detail.device_code, detail.suspects), (2, 700, 2));
        assert_eq!(Failure::from(RunError::Image(CameraId(1), ImageFault::Odd)).detail().camera, 1);
    }

    #[test]
    fn a_long_message_is_cut_between_characters_and_ends_with_a_zero() {
        let failure = Failure::new(Status::Load, format_args!("x{}", "ä".repeat(MESSAGE)));
        assert_eq!(failure.message.len, MESSAGE - 1);
        assert_eq!(failure.message.bytes[MESSAGE - 1], 0);
        assert!(std::str::from_utf8(&failure.message.bytes[..failure.message.len]).is_ok());
    }

    #[test]
    fn a_message_is_one_line_without_control_characters() {
        let failure = Failure::new(Status::Load, format_args!("{}: none\0", "a\nb\x1b[31m\tc\u{9b}d"));
        let text = std::str::from_utf8(&failure.message.bytes[..failure.message.len]).unwrap();
        assert_eq!(text, "a b [31m c d: none ");
    }

    #[test]
    fn numbers_are_in_order_without_gaps() {
        for (n, status) in Status::ALL.iter().enumerate() {
            assert_eq!(*status as usize, n);
        }
    }
}
