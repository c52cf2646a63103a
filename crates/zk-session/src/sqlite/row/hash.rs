use ring::digest::{Context, SHA256};

/// FNV-1a hash of the parts, each followed by its length, so that moving a byte to the next part changes the
/// hash.
///
/// For finding damage and naming folders; no protection against an attacker. Hashes are stored on disk, so
/// this function must never change.
pub(crate) fn fnv1a(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in parts {
        part.iter().copied().for_each(&mut eat);
        (part.len() as u64).to_le_bytes().into_iter().for_each(&mut eat);
    }
    hash
}

/// SHA-256 of an entry's content, or of an entry and all rows before it.
pub(crate) type Hash = [u8; 32];

/// Domain separator at the beginning of the hashed bytes of each link. Another layout needs another text.
const LINK_DOMAIN: &[u8] = b"zk session entry 1";

/// SHA-256 of an entry's content.
pub(crate) fn body_hash(kind: &str) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(kind.as_bytes());
    finish(context)
}

/// Columns of a row that its link covers besides the content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkHead<'a> {
    pub(crate) seq: i64,
    pub(crate) id: &'a str,
    pub(crate) parent: Option<&'a str>,
    pub(crate) time_ms: i64,
}

/// Link of the chain: SHA-256 over a row and the link of the row before it. The content counts by its own hash, so
/// that it can be removed while the chain still holds.
///
/// Links are stored on disk, so this function must never change.
pub(crate) fn link(before: Option<&Hash>, head: LinkHead<'_>, body: &Hash) -> Hash {
    let LinkHead { seq, id, parent, time_ms } = head;
    let mut context = Context::new(&SHA256);
    let mut part = |bytes: Option<&[u8]>| {
        // A missing part differs from an empty one.
        let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        context.update(&length.to_le_bytes());
        context.update(bytes.unwrap_or_default());
    };
    part(Some(LINK_DOMAIN));
    part(before.map(Hash::as_slice));
    part(Some(&seq.to_le_bytes()));
    part(Some(id.as_bytes()));
    part(parent.map(str::as_bytes));
    part(Some(&time_ms.to_le_bytes()));
    part(Some(body));
    finish(context)
}

fn finish(context: Context) -> Hash {
    let mut hash = Hash::default();
    hash.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

/// Text of a hash in hexadecimal.
pub(crate) fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_what_it_is_on_disk_and_covers_every_column() {
        let head = LinkHead { seq: 7, id: "e_1", parent: Some("e_0"), time_ms: 9 };
        let body = body_hash("{}");
        let known = link(Some(&[1; 32]), head, &body);
        assert_eq!(hex(&known), "f1414820dbaa051efc34a8a8a1a905e54bfc679558e3e0c55c48b5eccb6d8f58");
        let others = [
            link(None, head, &body),
            link(Some(&[2; 32]), head, &body),
            link(Some(&[1; 32]), LinkHead { seq: 8, ..head }, &body),
            link(Some(&[1; 32]), LinkHead { id: "e_", ..head }, &body),
            link(Some(&[1; 32]), LinkHead { parent: None, ..head }, &body),
            link(Some(&[1; 32]), LinkHead { parent: Some(""), ..head }, &body),
            link(Some(&[1; 32]), LinkHead { time_ms: 8, ..head }, &body),
            link(Some(&[1; 32]), head, &body_hash("[]")),
        ];
        assert!(!others.contains(&known));
    }

    #[test]
    fn the_value_stays_what_it_is_on_disk() {
        assert_eq!(fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(&[b"ab", b"c"]), 0x5091_916f_8cee_b7b0);
        assert_ne!(fnv1a(&[b"ab", b"c"]), fnv1a(&[b"a", b"bc"]));
    }
}
