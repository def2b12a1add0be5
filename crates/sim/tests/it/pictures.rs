use skep_sim::{Setup, picture, run};

#[test]
fn a_run_can_be_looked_at() {
    let setup = Setup { picture: true, byzantine: 2, crashes: 2, ..Setup::calm(11, 8, 1) };
    let report = run(&setup);
    let drawn = picture(&report).expect("it was asked for");
    assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"));
    assert_eq!(drawn.matches("class=\"lane\"").count(), 8);
    assert!(drawn.contains("task-0 planned") && drawn.contains("task-0 ended"));
    assert!(drawn.contains(">liar ") && drawn.contains("prefers-color-scheme:dark"));
    if let Ok(path) = std::env::var("PICTURE") {
        std::fs::write(path, &drawn).unwrap();
    }
    assert!(picture(&run(&Setup { picture: false, ..setup })).is_none());
}
