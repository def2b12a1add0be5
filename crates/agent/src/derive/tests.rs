use super::*;

const SEED: &str = "000102030405060708090a0b0c0d0e0f";

fn check(node: &Node, chain: &str, key: &str) {
    assert_eq!(hex::encode(*node.chain), chain);
    assert_eq!(hex::encode(*node.key), key);
}

/// Test vector 1 of BIP-32.
#[test]
fn bip32_vector_1() {
    let path = [HARDENED, 1, 2 | HARDENED, 2, 1_000_000_000];
    let expected = [
        (
            "873dff81c02f525623fd1fe5167eac3a55a049de3d314bb42ee227ffed37d508",
            "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35",
        ),
        (
            "47fdacbd0f1097043b78c63c20c34ef4ed9a111d980047ad16282c7ae6236141",
            "edb2e14f9ee77d26dd93b4ecede8d16ed408ce149b6cd80b0715a2d911a0afea",
        ),
        (
            "2a7857631386ba23dacac34180dd1983734e444fdbf774041578e9b6adb37c19",
            "3c6cb8d0f6a264c91ea8b5030fadaa8e538b020f0a387421a12de9319dc93368",
        ),
        (
            "04466b9cc8e161e966409ca52986c584f07e9dc81f735db683c3ff6ec7b1503f",
            "cbce0d719ecf7431d88e6a89fa1483e02e35092af60c042b1df2ff59fa424dca",
        ),
        (
            "cfb71883f01676f587d023cc53a35bc7f88f724b1f8c2892ac1275ac822a3edd",
            "0f479245fb19a38a1954c5c7c0ebab2f9bdfd96a17563ef28a6a4b1a2a764ef4",
        ),
        (
            "c783e67b921d2beb8f6b389cc646d7263b4145701dadd2161548a8b078e65e9e",
            "471b76e389e528d6de6d816857e012c5455051cad6660850e58372a6c3e6e7c8",
        ),
    ];
    let seed = hex::decode(SEED).unwrap();
    for (depth, (chain, key)) in expected.into_iter().enumerate() {
        check(&secp256k1(&seed, &path[..depth]).unwrap(), chain, key);
    }
}

/// Test vector 1 for ed25519 of SLIP-10.
#[test]
fn slip10_ed25519_vector_1() {
    let path = [0, 1, 2, 2, 1_000_000_000];
    let expected = [
        (
            "90046a93de5380a72b5e45010748567d5ea02bbf6522f979e05c0d8d8ca9fffb",
            "2b4be7f19ee27bbf30c667b642d5f4aa69fd169872f8fc3059c08ebae2eb19e7",
        ),
        (
            "8b59aa11380b624e81507a27fedda59fea6d0b779a778918a2fd3590e16e9c69",
            "68e0fe46dfb67e368c75379acec591dad19df3cde26e63b93a8e704f1dade7a3",
        ),
        (
            "a320425f77d1b5c2505a6b1b27382b37368ee640e3557c315416801243552f14",
            "b1d0bad404bf35da785a64ca1ac54b2617211d2777696fbffaf208f746ae84f2",
        ),
        (
            "2e69929e00b5ab250f49c3fb1c12f252de4fed2c1db88387094a0f8c4c9ccd6c",
            "92a5b23c0b8a99e37d07df3fb9966917f5d06e02ddbd909c7e184371463e9fc9",
        ),
        (
            "8f6d87f93d750e0efccda017d662a1b31a266e4a6f5993b15f5c1f07f74dd5cc",
            "30d1dc7e5fc04c31219ab25a27ae00b50f6fd66622f6e9c913253d6511d1e662",
        ),
        (
            "68789923a0cac2cd5a29172a475fe9e0fb14cd6adb5ad98a3fa70333e7afa230",
            "8f94d394a8e8fd6b1bc2f3f49f5c47e385281d5c17e65324b0f62483e37e8793",
        ),
    ];
    let seed = hex::decode(SEED).unwrap();
    for (depth, (chain, key)) in expected.into_iter().enumerate() {
        check(&ed25519(&seed, &path[..depth]), chain, key);
    }
    let public = skep_base::ed25519::SecretKey::from_seed(*ed25519(&seed, &path).key).public();
    assert_eq!(
        hex::encode(public.as_bytes()),
        "3c24da049451555d51a7014a37337aa4e12d41e485abccfa46b47dfb2af54b7a"
    );
}
