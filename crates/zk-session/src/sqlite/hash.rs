/// FNV-1a hash of the parts, each followed by its length, so that moving a byte to the next part changes the
/// hash.
///
/// For finding damage and naming folders; no protection against an attacker. Hashes are stored on disk, so
/// this function must never change.
pub(super) fn fnv1a(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in parts {
        part.iter().copied().for_each(&mut eat);
        (part.len() as u64).to_le_bytes().into_iter().for_each(&mut eat);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_stays_what_it_is_on_disk() {
        assert_eq!(fnv1a(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(&[b"ab", b"c"]), 0x5091_916f_8cee_b7b0);
        assert_ne!(fnv1a(&[b"ab", b"c"]), fnv1a(&[b"a", b"bc"]));
    }
}
