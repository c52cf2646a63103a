use super::*;

fn package() -> Package {
    Package { name: "zk-a".to_owned(), dir: "crates/zk-a".to_owned(), manifest: toml::Table::new() }
}

fn shape_of(files: &[(&str, &str)]) -> CrateShape {
    let text = |(path, text): &(&str, &str)| Text {
        path: format!("crates/zk-a/src/{path}"),
        text: (*text).to_owned(),
    };
    let texts: Vec<Text> = files.iter().map(text).collect();
    shape(&package(), &texts)
}

#[test]
fn circles_are_found_through_exports_macros_and_relative_paths() {
    let shape = shape_of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use b::inner::Thing;\n"),
        ("a.rs", "use crate::Thing;\n"),
        ("b/mod.rs", "pub mod inner;\npub use inner::*;\n"),
        ("b/inner.rs", "pub struct Thing;\nfn f() { println!(\"{}\", crate::c::NAME); }\n"),
        ("c.rs", "pub const NAME: &str = super::a::name();\n"),
        ("d.rs", "use crate::b::Thing;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
    ]);
    let circle = ["a.rs", "b/inner.rs", "c.rs"].map(|file| format!("crates/zk-a/src/{file}"));
    assert_eq!(shape.circles, [circle.to_vec()]);
}

#[test]
fn imports_in_one_direction_and_in_tests_are_no_circle() {
    let shape = shape_of(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b::B;\npub struct A;\n"),
        ("b.rs", "pub struct B;\n#[cfg(test)]\nuse crate::a::A;\n"),
    ]);
    assert_eq!(shape.circles, [] as [Vec<String>; 0]);
}

#[test]
fn lines_folders_and_fields_are_counted_without_tests() {
    let shape = shape_of(&[
        ("lib.rs", "mod a;\n"),
        ("a.rs", "struct A {\n    b: u8,\n    c: u8,\n}\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n"),
        ("a/tests.rs", "struct Large(u8, u8, u8);\n"),
    ]);
    assert_eq!(shape.lines, 6);
    assert_eq!(shape.structs, [("crates/zk-a/src/a.rs: A".to_owned(), 2)]);
    assert_eq!(shape.folders, [("crates/zk-a/src/".to_owned(), 1)]);
}

#[test]
fn comments_with_a_weak_first_word_are_counted_among_all() {
    let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
    let code = "/// Things.\n/// What goes on is no beginning.\nstruct A;\n// It.\nfn f() {}\n";
    assert_eq!(weak_openings(&[text("a.rs", code), text("a.md", "// It.\n")]), (1, 2));
}
