use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

/// The lines at which a check finds something in these files.
#[track_caller]
fn check(check: Check, files: &[(&str, &str)], lines: &[usize]) {
    let files: Vec<File> = files.iter().map(|(path, text)| file(path, text)).collect();
    let found = check(&files);
    let text: Vec<String> =
        found.iter().map(|one| format!("{}:{}: {}", one.path, one.line, one.what)).collect();
    let found: Vec<usize> = found.iter().map(|one| one.line).collect();
    assert_eq!(found, lines, "{text:#?}");
}

#[test]
fn long_files() {
    let long = "// x\n".repeat(601);
    check(rules::files_are_short, &[("a.rs", &long)], &[601]);
    check(rules::files_are_short, &[("a/tests.rs", &long), ("tests/a.txt", &long)], &[]);
    let with_tests = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
    check(rules::files_are_short, &[("a.rs", &with_tests)], &[]);
    let declared = format!("mod a;\n#[cfg(test)]\nmod tests;\n{long}");
    check(rules::files_are_short, &[("a.rs", &declared)], &[601]);
}

#[test]
fn long_functions() {
    let body = |n| "    x();\n".repeat(n);
    let fits = format!("fn a() {{\n{}}}\n", body(68));
    let long = format!("\npub(crate) async fn a(\n) {{\n{}}}\n", body(68));
    check(rules::functions_are_short, &[("a.rs", &fits)], &[]);
    check(rules::functions_are_short, &[("a.rs", &long)], &[2]);
    check(rules::functions_are_short, &[("a/tests/b.rs", &long)], &[]);
    // Neither a brace in a string, a character or a comment, nor a signature alone, misleads it.
    let tricky = format!(
        "fn a<'a>() {{ \"}}\"; '{{'; '\\''; r#\"{{\"#; /* {{ /* */ */ }}\n// {{\n\
         trait T {{\n    fn b(&self) -> [u8; 3];\n{}}}\n",
        body(80)
    );
    check(rules::functions_are_short, &[("a.rs", &tricky)], &[]);
}

#[test]
fn long_lines() {
    let words = "word ".repeat(21);
    let url = format!("// see https://example.org/{}", "a".repeat(90));
    check(rules::lines_are_short, &[("a.rs", &format!("\n{words}x\n")), ("b.md", &words)], &[2]);
    check(rules::lines_are_short, &[("a.rs", &url), ("c.rs", &"ä ".repeat(50))], &[]);
}

#[test]
fn module_files() {
    check(rules::no_mod_rs, &[("src/a/mod.rs", ""), ("src/mod_rs.rs", "")], &[1]);
}

#[test]
fn things_left_to_do() {
    for word in [["TO", "DO"], ["FIX", "ME"], ["db", "g!"], ["to", "do!"]].map(|w| w.concat()) {
        let text = format!("a\n// {word}(x)\n");
        check(rules::nothing_left_to_do, &[("a.rs", &text)], &[2]);
    }
    check(rules::nothing_left_to_do, &[("a.rs", "fn mastodon() {} // method\n")], &[]);
}

#[test]
fn trailing_space() {
    check(rules::no_trailing_space, &[("a.md", "x\ny \n")], &[2]);
    check(rules::no_trailing_space, &[("a.md", "x\r\n"), ("b.md", "x\n")], &[1]);
    check(rules::no_trailing_space, &[("a.md", "x"), ("b.md", "x\n\n"), ("c.md", "")], &[1, 2]);
}

#[test]
fn machine_paths() {
    let [one, other] = [["/ro", "ot/x"], ["/wo", "rk/x"]].map(|path| path.concat());
    let planted = format!("see {one}\n\"{other}\"\n");
    let harmless = format!("https://example.org{other}\n~{other} $HOME/x\n");
    check(rules::no_machine_paths, &[("a.md", &planted)], &[1, 2]);
    check(rules::no_machine_paths, &[("a.md", &harmless)], &[]);
}

#[test]
fn foreign_registries() {
    let lock = "name = \"a\"\n\
        source = \"registry+https://github.com/rust-lang/crates.io-index\"\n\
        source = \"git+https://example.org/b\"\n";
    check(rules::crates_io_only, &[("Cargo.lock", lock)], &[3]);
}

#[test]
fn crates_without_lints() {
    let without = "[package]\nname = \"a\"\n";
    let with = format!("{without}\n[lints]\nworkspace = true\n");
    check(rules::every_crate_takes_the_lints, &[("a/Cargo.toml", without)], &[1]);
    check(rules::every_crate_takes_the_lints, &[("a/Cargo.toml", &with)], &[]);
}

#[test]
fn loud_sql() {
    let store = "crates/store/src/a.rs";
    check(sql::is_in_lower_case, &[(store, "f(\"select 1\");\nf(\"SELECT x from y\");\n")], &[2]);
    check(sql::is_in_lower_case, &[(store, "// A SELECT of rows\nlet SELECT = 1;\n")], &[]);
    let migration = "create table t (x int);\n-- INSERT INTO is never used\nCREATE TABLE u (x);\n";
    check(sql::is_in_lower_case, &[("migrations/sqlite/0001_a.sql", migration)], &[3]);
}

#[test]
fn misplaced_sql() {
    let planted = "fn a() {\n    f(\"\n        select x\n        from y\");\n}\n";
    check(sql::is_in_its_place, &[("crates/api/src/a.rs", planted)], &[2]);
    check(sql::is_in_its_place, &[("crates/api/src/a.rs", "f(r\"INSERT INTO t values\")")], &[1]);
    let fine = "f(\"select a seller\"); // select x from y\n\n\
        #[cfg(test)]\nmod tests {\n    fn a() { f(\"select x from y\") }\n}\n";
    check(sql::is_in_its_place, &[("crates/api/src/a.rs", fine)], &[]);
    check(sql::is_in_its_place, &[("crates/store/src/a.rs", planted)], &[]);
    check(sql::is_in_its_place, &[("crates/api/tests/a.rs", planted)], &[]);
}

#[test]
fn unequal_migrations() {
    let (a, b) = ("migrations/sqlite/0001_a.sql", "migrations/postgres/0001_a.sql");
    check(sql::migrations_are_twins, &[(a, ""), (b, "")], &[]);
    check(sql::migrations_are_twins, &[(a, "")], &[1]);
    check(sql::migrations_are_twins, &[(a, ""), ("migrations/postgres/0001_b.sql", "")], &[1, 1]);
    let gap = ["migrations/sqlite/0003_c.sql", "migrations/postgres/0003_c.sql"];
    check(sql::migrations_are_twins, &[(a, ""), (b, ""), (gap[0], ""), (gap[1], "")], &[1, 1]);
}

/// A check that is not in the list would never run.
#[test]
fn every_check_is_listed() {
    let source = [include_str!("rules.rs"), include_str!("sql.rs")].concat();
    assert_eq!(source.matches("pub(super) fn ").count(), CHECKS.len());
}
