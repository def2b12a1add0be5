//! Which addresses of the internet a stranger may send us to.
//!
//! A verifier, a webhook or a claim names a host, and whoever names it may own its DNS. Every
//! address that leads back into our own network, to the machine itself or to a cloud's metadata
//! is refused; so are those that nobody can have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks in IPv4 that are not the public internet (the IANA registry of special purposes).
const FORBIDDEN_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "a carrier's own"),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([169, 254, 0, 0], 16, "link-local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "for protocols"),
    ([192, 0, 2, 0], 24, "for documentation"),
    ([192, 88, 99, 0], 24, "a 6to4 relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "for benchmarks"),
    ([198, 51, 100, 0], 24, "for documentation"),
    ([203, 0, 113, 0], 24, "for documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Networks within 2000::/3 that are not the public internet. What is outside of it is refused
/// as a whole, but for the two forms that carry an IPv4 address.
const FORBIDDEN_V6: &[([u16; 3], u8, &str)] = &[
    // Teredo (2001::/32) among them: it hides an IPv4 address that we would have to unpack.
    ([0x2001, 0, 0], 23, "for protocols"),
    ([0x2001, 0xdb8, 0], 32, "for documentation"),
    ([0x2002, 0, 0], 16, "6to4"),
    ([0x3fff, 0, 0], 20, "for documentation"),
];

const LOOPBACK: &str = "loopback";

/// Why no connection may go to `ip`, or nothing if one may. `allow_loopback` opens 127.0.0.0/8
/// and ::1 as they stand, and no other spelling of them.
pub(crate) fn why_forbidden(ip: IpAddr, allow_loopback: bool) -> Option<&'static str> {
    let why = match ip {
        IpAddr::V4(ip) => why_forbidden_v4(ip),
        IpAddr::V6(ip) => why_forbidden_v6(ip),
    };
    why.filter(|_| !(allow_loopback && ip.is_loopback()))
}

fn why_forbidden_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let bits = ip.to_bits();
    let found = FORBIDDEN_V4.iter().find(|(network, length, _)| {
        (bits ^ Ipv4Addr::from(*network).to_bits()) >> (32 - length) == 0
    });
    found.map(|(_, _, why)| *why)
}

fn why_forbidden_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if ip.is_loopback() {
        return Some(LOOPBACK);
    }
    let parts = ip.segments();
    match parts {
        // v4-mapped, and NAT64 as the whole world knows it: what counts is the address inside.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            return why_forbidden_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
        }
        [0xfc00..=0xfdff, ..] => return Some("private"),
        [0xfe80..=0xfebf, ..] => return Some("link-local"),
        [0xfec0..=0xfeff, ..] => return Some("site-local"),
        [0xff00..=0xffff, ..] => return Some("multicast"),
        [0x2000..=0x3fff, ..] => {}
        _ => return Some("not a public address"),
    }
    let found = FORBIDDEN_V6.iter().find(|([a, b, c], length, _)| {
        let network = Ipv6Addr::new(*a, *b, *c, 0, 0, 0, 0, 0).to_bits();
        (ip.to_bits() ^ network) >> (128 - length) == 0
    });
    found.map(|(_, _, why)| *why)
}

/// Names that only a private network knows. Some resolvers answer them, so they are not asked.
pub(crate) fn is_private_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["localhost", "local", "internal", "home.arpa"].iter().any(|suffix| {
        host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address, and why it is refused without and with `allow_loopback`.
    const TABLE: &[(&str, Option<&str>, Option<&str>)] = &[
        ("8.8.8.8", None, None),
        ("1.1.1.1", None, None),
        ("9.255.255.255", None, None),
        ("11.0.0.0", None, None),
        ("100.63.255.255", None, None),
        ("100.128.0.0", None, None),
        ("126.255.255.255", None, None),
        ("128.0.0.0", None, None),
        ("172.15.255.255", None, None),
        ("172.32.0.0", None, None),
        ("192.0.1.0", None, None),
        ("192.167.255.255", None, None),
        ("198.17.255.255", None, None),
        ("198.20.0.0", None, None),
        ("223.255.255.255", None, None),
        ("0.0.0.0", Some("this network"), Some("this network")),
        ("0.255.255.255", Some("this network"), Some("this network")),
        ("10.0.0.1", Some("private"), Some("private")),
        ("10.255.255.255", Some("private"), Some("private")),
        ("100.64.0.0", Some("a carrier's own"), Some("a carrier's own")),
        ("100.127.255.255", Some("a carrier's own"), Some("a carrier's own")),
        ("127.0.0.1", Some("loopback"), None),
        ("127.255.255.255", Some("loopback"), None),
        ("169.254.169.254", Some("link-local"), Some("link-local")),
        ("172.16.0.0", Some("private"), Some("private")),
        ("172.31.255.255", Some("private"), Some("private")),
        ("192.0.0.170", Some("for protocols"), Some("for protocols")),
        ("192.0.2.1", Some("for documentation"), Some("for documentation")),
        ("192.88.99.1", Some("a 6to4 relay"), Some("a 6to4 relay")),
        ("192.168.1.1", Some("private"), Some("private")),
        ("198.18.0.0", Some("for benchmarks"), Some("for benchmarks")),
        ("198.19.255.255", Some("for benchmarks"), Some("for benchmarks")),
        ("198.51.100.7", Some("for documentation"), Some("for documentation")),
        ("203.0.113.7", Some("for documentation"), Some("for documentation")),
        ("224.0.0.1", Some("multicast"), Some("multicast")),
        ("239.255.255.255", Some("multicast"), Some("multicast")),
        ("240.0.0.0", Some("reserved"), Some("reserved")),
        ("255.255.255.255", Some("reserved"), Some("reserved")),
        ("2606:4700:4700::1111", None, None),
        ("2001:4860:4860::8888", None, None),
        ("2001:200::1", None, None),
        ("::ffff:8.8.8.8", None, None),
        ("64:ff9b::8.8.8.8", None, None),
        ("::", Some("not a public address"), Some("not a public address")),
        ("::1", Some("loopback"), None),
        ("::2", Some("not a public address"), Some("not a public address")),
        ("::127.0.0.1", Some("not a public address"), Some("not a public address")),
        ("::ffff:127.0.0.1", Some("loopback"), Some("loopback")),
        ("::ffff:10.0.0.1", Some("private"), Some("private")),
        ("::ffff:169.254.169.254", Some("link-local"), Some("link-local")),
        ("::ffff:0:10.0.0.1", Some("not a public address"), Some("not a public address")),
        ("64:ff9b::127.0.0.1", Some("loopback"), Some("loopback")),
        ("64:ff9b::169.254.169.254", Some("link-local"), Some("link-local")),
        ("64:ff9b:1::8.8.8.8", Some("not a public address"), Some("not a public address")),
        ("100::1", Some("not a public address"), Some("not a public address")),
        ("2001::1", Some("for protocols"), Some("for protocols")),
        ("2001:1ff:ffff::1", Some("for protocols"), Some("for protocols")),
        ("2001:db8::1", Some("for documentation"), Some("for documentation")),
        ("2002:7f00:1::", Some("6to4"), Some("6to4")),
        ("2002:808:808::1", Some("6to4"), Some("6to4")),
        ("3fff:fff::1", Some("for documentation"), Some("for documentation")),
        ("4000::1", Some("not a public address"), Some("not a public address")),
        ("fc00::1", Some("private"), Some("private")),
        ("fd00:ec2::254", Some("private"), Some("private")),
        ("fe80::1", Some("link-local"), Some("link-local")),
        ("febf::1", Some("link-local"), Some("link-local")),
        ("fec0::1", Some("site-local"), Some("site-local")),
        ("ff02::1", Some("multicast"), Some("multicast")),
    ];

    #[test]
    fn every_network_is_judged_at_its_edges() {
        for (ip, strict, dev) in TABLE {
            let ip = ip.parse().unwrap();
            assert_eq!(why_forbidden(ip, false), *strict, "{ip}");
            assert_eq!(why_forbidden(ip, true), *dev, "{ip} with loopback allowed");
        }
    }

    #[test]
    fn private_names_are_known_with_their_subdomains_only() {
        for name in ["localhost", "LOCALHOST.", "a.localhost", "printer.local", "x.internal"] {
            assert!(is_private_name(name), "{name}");
        }
        for name in ["notlocalhost", "local.example", "internal.example.org", "example.com"] {
            assert!(!is_private_name(name), "{name}");
        }
    }
}
