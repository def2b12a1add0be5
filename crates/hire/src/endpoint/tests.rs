use super::*;

#[test]
fn public_addresses_have_an_origin() {
    for (url, found) in [
        ("https://Seller.Example.com/v1", "https://seller.example.com:443"),
        ("https://seller.example:8443", "https://seller.example:8443"),
        ("https://8.8.8.8/x", "https://8.8.8.8:443"),
        ("https://[2606:4700::1]:99/", "https://[2606:4700::1]:99"),
    ] {
        assert_eq!(origin(url, false).as_deref(), Ok(found));
    }
    assert_eq!(origin("http://127.0.0.1:80/a", true).as_deref(), Ok("http://127.0.0.1:80"));
    assert_eq!(origin("http://localhost", true).as_deref(), Ok("http://localhost:80"));
}

#[test]
fn private_and_odd_ones_are_refused() {
    let long = format!("https://a.example/{}", "x".repeat(500));
    for url in [
        "http://a.example",
        "ftp://a.example",
        "https://",
        "https://a.example?x=1",
        "https://a.example/#x",
        "https://user@a.example",
        "https://a.example:0",
        "https://a.example:99999",
        "https://a.example:x",
        "https://a exam.ple",
        "https://a..example",
        "https://intranet",
        "https://localhost",
        "https://x.localhost",
        "https://printer.local",
        "https://metadata.google.internal",
        "https://127.0.0.1",
        "https://2130706433",
        "https://0x7f.1",
        "https://127.1",
        "https://10.0.0.1",
        "https://169.254.169.254",
        "https://192.168.1.1",
        "https://[::1]",
        "https://[::ffff:10.0.0.1]",
        "https://[fd00::1]",
        &long,
    ] {
        assert!(origin(url, false).is_err(), "{url}");
    }
    for url in ["http://a.example", "http://10.0.0.1", "https://printer.local"] {
        assert!(origin(url, true).is_err(), "{url} with --dev");
    }
}
