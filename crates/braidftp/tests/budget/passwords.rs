//! Attacks by password guessing.

use super::*;

pub(super) fn wrong_passwords(row: Row) {
    let attempts = limit(row, &quick());
    let folder = Folder::new();
    let users = Users::parse(&users_file(&cheap_hash(b"right")), Access::ReadOnly).unwrap();
    let served = serve_with(folder.root(), |builder| builder.users(users));
    let mut control = Control::open(&served);
    for nth in 1..=attempts {
        control.command("USER anna", "331");
        control.send("PASS wrong");
        if nth < attempts {
            control.expect("530");
        }
    }
    let words = control.rest();
    assert!(words.contains("421"), "{words}");
}

/// Runs a future with a paused clock, so that delays take no time.
fn without_waiting<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

pub(super) fn guesses(_: Row) {
    let address = |nth: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + nth));
    let users = || Users::parse(&users_file(&cheap_hash(b"right")), Access::ReadOnly).unwrap();
    without_waiting(async {
        let users = users();
        let most = limit(Row::AddressGuesses, &quick());
        for _ in 0..most {
            assert_eq!(users.log_in(b"anna", b"wrong", address(1)).await, Err(LoginError::Refused));
        }
        assert_eq!(users.log_in(b"anna", b"right", address(1)).await, Err(LoginError::TooMany));
        assert!(users.log_in(b"anna", b"right", address(2)).await.is_ok());
    });
    without_waiting(async {
        let users = users();
        let most = limit(Row::UserGuesses, &quick()) as u32;
        assert!(users.log_in(b"anna", b"right", address(0)).await.is_ok());
        for nth in 0..most {
            assert_eq!(users.log_in(b"anna", b"wrong", address(1 + nth)).await, Err(LoginError::Refused));
        }
        assert_eq!(users.log_in(b"anna", b"right", address(1 + most)).await, Err(LoginError::TooMany));
        assert!(users.log_in(b"anna", b"right", address(0)).await.is_ok(), "known from before");
    });
    without_waiting(async {
        let users = users();
        let most = limit(Row::GuessesRemembered, &quick());
        for nth in 0..most as u32 + 200 {
            let nobody = format!("nobody {nth}");
            let _ = users.log_in(nobody.as_bytes(), b"wrong", address(nth)).await;
        }
        assert_eq!(users.remembered_addresses(), most);
    });
}

pub(super) fn passwords(_: Row) {
    let long = vec![b'x'; limit(Row::PasswordBytes, &quick()) + 1];
    let users = Users::parse(&users_file(&cheap_hash(&long)), Access::ReadOnly).unwrap();
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let refused = without_waiting(users.log_in(b"anna", &long, here));
    assert_eq!(refused, Err(LoginError::Refused));
    let kib = limit(Row::PasswordMemory, &quick()) >> 10;
    let costly = |kib: usize| users_file(&cheap_hash(b"x").replace("m=8,", &format!("m={kib},")));
    assert!(Users::parse(&costly(kib), Access::ReadOnly).is_ok());
    assert!(Users::parse(&costly(kib + 1), Access::ReadOnly).is_err());
}
