//! A URL is judged before anything is asked of the network.

use std::net::IpAddr;

use url::{Host, Url};

use super::{EgressError, Policy, address};

/// The longest URL that is fetched, in bytes.
const URL_LEN_MAX: usize = 4096;

/// Ports where something else than HTTP listens that acts on a line of text sent to it.
const REFUSED_PORTS: &[u16] = &[
    0, 7, 9, 19, 21, 22, 23, 25, 53, 69, 110, 111, 119, 135, 139, 143, 161, 389, 445, 465, 514,
    587, 636, 873, 993, 995, 1433, 1521, 2049, 2375, 2379, 3306, 3389, 5432, 5672, 5900, 6000,
    6379, 9042, 9092, 11211, 27017,
];

/// The URL as it will be fetched, if it may be.
pub(crate) fn judge(text: &str, policy: &Policy) -> Result<Url, EgressError> {
    if text.len() > URL_LEN_MAX {
        let reason = format!("it is longer than {URL_LEN_MAX} bytes");
        return Err(EgressError::BadUrl { url: text.chars().take(100).collect(), reason });
    }
    let bad = |reason: &str| EgressError::BadUrl { url: text.to_owned(), reason: reason.into() };
    let mut url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("only http and https are fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The password is not repeated: errors end up in logs and in proofs.
        let reason = "a user name or password in it is refused".to_owned();
        return Err(EgressError::BadUrl { url: String::new(), reason });
    }
    if url.port_or_known_default().is_none_or(|port| REFUSED_PORTS.contains(&port)) {
        return Err(bad("no web server listens on this port"));
    }
    let loopback = judge_host(&url, policy)?;
    if url.scheme() == "http" && !policy.allow_http && !loopback {
        return Err(bad("only https is fetched here"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Judges what the URL says of its host; what a name resolves to is judged when it is known.
/// Says whether the host is this machine.
fn judge_host(url: &Url, policy: &Policy) -> Result<bool, EgressError> {
    // The parser has turned every spelling of an IPv4 address (2130706433, 0x7f.1) into one.
    let ip: IpAddr = match url.host() {
        Some(Host::Ipv4(ip)) => ip.into(),
        Some(Host::Ipv6(ip)) => ip.into(),
        Some(Host::Domain(host)) => {
            let private = address::is_private_name(host);
            if private && !policy.allow_loopback {
                return Err(EgressError::ForbiddenName { host: host.to_owned() });
            }
            return Ok(private);
        }
        None => {
            let reason = "it names no host".to_owned();
            return Err(EgressError::BadUrl { url: url.to_string(), reason });
        }
    };
    match address::why_forbidden(ip, policy.allow_loopback) {
        Some(_) => Err(EgressError::ForbiddenAddress { host: ip.to_string(), ip }),
        None => Ok(ip.is_loopback()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(url: &str, policy: &Policy) -> &'static str {
        judge(url, policy).map_or_else(|error| error.code(), |_| "good")
    }

    #[test]
    fn every_spelling_of_a_bad_host_is_refused() {
        let strict = Policy::default();
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://0/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:7f00:1::]/",
            "http://[2001:0:53aa:64c::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://１２７.0.0.1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost:8080/",
            "http://metadata.google.internal/",
            "http://printer.local/",
        ] {
            assert_eq!(code(url, &strict), "refused_address", "{url}");
        }
        let dev = Policy { allow_loopback: true, ..Policy::default() };
        for url in ["http://127.0.0.1/", "http://[::1]:8080/", "http://localhost/", "http://127.1/"]
        {
            assert_eq!(code(url, &dev), "good", "{url}");
        }
        for url in ["http://[::ffff:127.0.0.1]/", "http://10.0.0.1/", "http://0/"] {
            assert_eq!(code(url, &dev), "refused_address", "{url}");
        }
    }

    #[test]
    fn other_schemes_ports_and_passwords_are_refused() {
        let policy = Policy { allow_loopback: true, ..Policy::default() };
        for url in [
            "",
            "nonsense",
            "file:///etc/passwd",
            "ftp://example.com/",
            "gopher://example.com/",
            "data:text/plain,x",
            "javascript:alert(1)",
            "http://",
            "http://example.com:0/",
            "http://example.com:22/",
            "https://example.com:6379/",
            "http://user@example.com/",
            "http://user:secret@example.com/",
            "http://:secret@example.com/",
            "http://256.256.256.256/",
            &format!("http://example.com/{}", "x".repeat(5000)),
        ] {
            assert_eq!(code(url, &policy), "bad_url", "{url}");
        }
        let error = judge("http://user:secret@example.com/", &policy).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(code("https://example.com:8443/a?b=c#d", &policy), "good");
        assert_eq!(
            judge("http://example.com/#d", &policy).unwrap().as_str(),
            "http://example.com/"
        );
    }

    #[test]
    fn plain_http_can_be_ruled_out_for_all_but_this_machine() {
        let policy = Policy { allow_http: false, allow_loopback: true, ..Policy::default() };
        assert_eq!(code("http://example.com/", &policy), "bad_url");
        assert_eq!(code("https://example.com/", &policy), "good");
        assert_eq!(code("http://127.0.0.1:4020/", &policy), "good");
    }
}
