//! Where a seller may be, as far as the words of its address tell. What a name leads to is judged
//! by whoever connects.

use std::net::{Ipv4Addr, Ipv6Addr};

use skep_wire::hire::ENDPOINT_LEN_MAX;

#[cfg(test)]
mod tests;

/// Names that only a private network knows.
const PRIVATE_NAMES: [&str; 4] = ["localhost", "local", "internal", "home.arpa"];

/// Checks an address and gives its origin, `scheme://host:port`. `dev` allows this machine, also
/// without TLS.
pub fn origin(url: &str, dev: bool) -> Result<String, String> {
    let no = |why: &str| Err(why.to_owned());
    if url.len() > ENDPOINT_LEN_MAX {
        return Err(format!("an endpoint has at most {ENDPOINT_LEN_MAX} bytes"));
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains(['\\', '"', '<', '>']) {
        return no("an endpoint is visible ASCII, without spaces");
    }
    let (scheme, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => ("https", rest),
        (_, Some(rest)) if dev => ("http", rest),
        _ => return no("an endpoint begins with https://"),
    };
    if rest.contains(['?', '#']) {
        return no("an endpoint has no query and no fragment: /hire is added to it");
    }
    let authority = rest.split('/').next().unwrap_or_default().to_ascii_lowercase();
    if authority.contains('@') {
        return no("an endpoint has no user name");
    }
    let (host, port) = split_port(&authority).ok_or("an endpoint's port is a number")?;
    let loopback = judge_host(host)?;
    if loopback && !dev {
        return no("an endpoint is on the public internet, not on this machine");
    }
    if scheme == "http" && !loopback {
        return no("only an address of this machine may do without https://, and only with --dev");
    }
    let port = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
    Ok(format!("{scheme}://{host}:{port}"))
}

/// The colons of an IPv6 address are within brackets.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let host_end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[host_end..].find(':') {
        None => Some((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(host_end + at);
            port[1..].parse().ok().filter(|port| *port > 0).map(|port| (host, Some(port)))
        }
    }
}

/// Says whether it is this machine; other private places are refused.
fn judge_host(host: &str) -> Result<bool, String> {
    let private = || Err("an endpoint is on the public internet".to_owned());
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let ip: Ipv6Addr = inner.parse().map_err(|_| "the endpoint's host is no address")?;
        return match ip.is_loopback() {
            true => Ok(true),
            false if is_private_v6(ip) => private(),
            false => Ok(false),
        };
    }
    let name = host.trim_end_matches('.');
    let labels_fit = name.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    });
    if name.is_empty() || name.len() > 253 || !labels_fit {
        return Err("the endpoint names no host".to_owned());
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // What ends in a number is an address, however it is spelled: only the plain spelling is taken.
    if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
        let ip: Ipv4Addr = name.parse().map_err(|_| "the endpoint's host is no address")?;
        return match ip.is_loopback() {
            true => Ok(true),
            false if is_private_v4(ip) => private(),
            false => Ok(false),
        };
    }
    if name == "localhost" || name.ends_with(".localhost") {
        return Ok(true);
    }
    let is_private = |suffix: &&str| {
        name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    match PRIVATE_NAMES.iter().any(is_private) || !name.contains('.') {
        true => private(),
        false => Ok(false),
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    ip.is_private()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
}

fn is_private_v6(ip: Ipv6Addr) -> bool {
    if let Some(inner) = ip.to_ipv4_mapped() {
        return inner.is_loopback() || is_private_v4(inner);
    }
    // Only 2000::/3 is the public internet.
    ip.segments()[0] & 0xe000 != 0x2000
}
