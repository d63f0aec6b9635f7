use super::*;

#[test]
fn comments_and_blanks_are_no_part_of_a_kernel() {
    let of = |source| fold_source(FNV_BASIS, source);
    let source = "// What it does.\n__global__ void f(int  a) {\n    a += 1;  // once\n\n}\n";
    assert_eq!(of(source), of("__global__ void f(int a) {\n  a += 1;\n}\n"));
    assert_ne!(of(source), of("__global__ void f(int a) {\n  a += 2;\n}\n"));
    assert_ne!(of("int a;\n"), of("inta;\n"));
    assert_ne!(of("#define A\nB\n"), of("#define A B\n"));
}

#[test]
fn texts_and_where_they_end_make_the_hash() {
    // Published for FNV-1a of 128 bits over the byte `a`: what is folded behind a text is one byte more.
    let of_a = 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964_u128;
    assert_eq!(fold(FNV_BASIS, "a"), (of_a ^ 0xff).wrapping_mul(FNV_PRIME));
    assert_ne!(fold(fold(FNV_BASIS, "ab"), "c"), fold(fold(FNV_BASIS, "a"), "bc"));
}

/// Names of the files in the folder `kernels` with an extension, sorted.
fn files(extension: &str) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/backend/cuda/kernels");
    let paths = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let wanted = paths.filter(|p| p.extension().is_some_and(|e| e == extension));
    let mut names: Vec<String> = wanted.map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn every_source_in_the_folder_is_listed_once_and_in_order() {
    let units: Vec<String> = UNITS.iter().map(|u| format!("{}.cu", u.name)).collect();
    let headers: Vec<&str> = HEADERS.iter().map(|h| h.name).collect();
    assert_eq!(units, files("cu"));
    assert_eq!(headers, files("cuh"));
}

/// From the first brace behind `at` to the one that closes it.
fn block(source: &str, at: usize) -> &str {
    let begin = at + source[at..].find('{').expect("a body");
    let mut depth = 0;
    for (i, c) in source[begin..].char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return &source[begin..begin + i];
        }
    }
    panic!("a body does not end: {}", &source[begin..]);
}

/// A body without those of the functions that stand in it: their ways out are not its own.
fn without_inner(body: &str) -> String {
    match body.find("[&](") {
        None => body.to_owned(),
        Some(at) => {
            let inner = block(body, at);
            let end = at + body[at..].find(inner).unwrap_or_default() + inner.len();
            body[..at].to_owned() + &without_inner(&body[end..])
        }
    }
}

/// True if a body waits for its predecessors before it can end, by itself or in a function of its unit that it calls;
/// where warps have roles of their own, in that of one role at least.
fn waits(source: &str, body: &str, depth: u32) -> bool {
    let body = without_inner(body);
    let certain = body.split("return").next().unwrap();
    let called = |name: &str| ['(', '<'].iter().any(|open| certain.contains(&format!(" {name}{open}")));
    certain.contains("wait_for_predecessors();")
        || depth > 0
            && source.match_indices("void ").any(|(at, word)| {
                let name = source[at + word.len()..].split('(').next().unwrap();
                called(name) && waits(source, block(source, at), depth - 1)
            })
}

#[test]
fn a_wait_behind_a_way_out_does_not_count() {
    let source = "void early() { if (x) return; wait_for_predecessors(); } void late() { wait_for_predecessors(); }";
    let bodies = [
        "{ early(); }",
        "{ late(); }",
        "{ if (x) return; late(); }",
        "{ other(); }",
        "{ const auto f = [&](u32 i) { if (i) { return 1; } return 2; }; late(); }",
        "{ each([&](u32 i) { late(); }); }",
        "{ each([&](u32 i) { return i; }); if (x) return; late(); }",
    ];
    let found = bodies.map(|body| waits(source, body, 2));
    assert_eq!(found, [false, true, false, false, true, false, false]);
}

#[test]
fn every_kernel_waits_for_its_predecessors_before_it_can_end() {
    let mut kernels = 0;
    for unit in UNITS {
        for (at, _) in unit.source.match_indices("__global__") {
            kernels += 1;
            let told = unit.source[at..].lines().next().unwrap_or_default();
            assert!(waits(unit.source, block(unit.source, at), 3), "{}: {told}", unit.name);
        }
    }
    assert!(kernels > UNITS.len());
}

#[test]
fn kernels_with_units_of_their_own_have_these_units() {
    for (kernel, units) in OWN {
        assert!(units.iter().all(|name| unit(name).is_some()), "{kernel:?}");
    }
    assert!(serves("conv_mma", Kernel::ConvMma) && !serves("conv_mma", Kernel::Generic) && !serves("nms", Kernel::ConvMma));
}

#[test]
fn what_mirrors_a_struct_is_there() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cuda");
    for source in UNITS.iter().map(|u| u.source).chain(HEADERS.iter().map(|h| h.source)) {
        for named in source.split("mirrored in ").skip(1) {
            let file = &named[..named.find(".rs").expect("a file") + 3];
            let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert!(text.contains("#[repr(C"), "{file}");
        }
    }
}

#[test]
fn sources_include_listed_headers_only() {
    let units = UNITS.iter().map(|u| (u.name, u.source));
    for (name, source) in units.chain(HEADERS.iter().map(|h| (h.name, h.source))) {
        for wanted in includes(source) {
            assert!(HEADERS.iter().any(|h| h.name == wanted), "{name} includes {wanted}");
        }
    }
}

#[test]
fn a_unit_is_known_by_itself_and_by_what_it_includes() {
    let unit = |source| Unit {
        name: "u",
        source,
        only: &[],
    };
    let through = unit("#include \"slot.cuh\"\n");
    let names: Vec<&str> = included(&through).iter().map(|h| h.name).collect();
    assert_eq!(names, ["slot.cuh", "types.cuh"], "slot.cuh includes types.cuh");
    assert!(included(&unit("  // #include \"slot.cuh\"\n")).is_empty());
    let toolkit = Toolkit { major: 12, minor: 6 };
    let digest = |source, architecture| unit_digest(&unit(source), architecture, toolkit);
    assert_eq!(digest("a", "sm_80"), digest("a", "sm_80"));
    assert_ne!(digest("a", "sm_80"), digest("b", "sm_80"));
    assert_ne!(digest("a", "sm_80"), digest("a", "sm_87"));
    assert_ne!(
        digest("a", "sm_80"),
        unit_digest(&unit("a"), "sm_80", Toolkit { major: 13, minor: 0 })
    );
}
