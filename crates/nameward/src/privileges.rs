//! Changes of user: permanently after the ports are bound, and temporarily where a command does the work of the
//! server.
//!
//! The order is fixed: supplementary groups, group, user; afterwards it is checked that the change cannot be undone.
//! Unsafe code is needed because the standard library has none of these calls.

#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    ptr,
    sync::OnceLock,
};

use crate::config::Config;

/// A user and group to switch to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserAndGroup {
    pub uid: libc::uid_t,
    pub gid: libc::gid_t,
}

/// A user or group that this process cannot switch to.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("server.user: no such user {0:?}")]
    NoUser(String),
    #[error("server.group: no such group {0:?}")]
    NoGroup(String),
    #[error("cannot switch to user {user:?} group {group:?}: not started as root")]
    NotRoot { user: String, group: String },
    #[error("cannot read the user database: {0}")]
    Database(io::Error),
    #[error("cannot drop root privileges ({step}): {source}")]
    Refused {
        /// The system call.
        step: &'static str,
        source: io::Error,
    },
    #[error("cannot drop root privileges: they could be regained")]
    NotForGood,
}

/// Returns the effective user of this process.
pub fn own_user() -> u32 {
    UserAndGroup::current().uid
}

/// Returns the user who started this process, regardless of the current identity.
pub fn real_user() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::getuid() }
}

/// Returns the name of a user; its number if it has none.
pub fn user_name(uid: u32) -> String {
    let found = look_up(
        // SAFETY: every pointer is to memory that lives through the call, and the length is that of the buffer.
        |entry, buffer, found| unsafe {
            libc::getpwuid_r(uid, entry, buffer.as_mut_ptr().cast(), buffer.len(), found)
        },
        |entry: &libc::passwd| {
            // SAFETY: the name is a NUL-terminated string within the buffer, which lives until it is copied.
            let text = unsafe { CStr::from_ptr(entry.pw_name) };
            text.to_string_lossy().into_owned()
        },
    );
    match found {
        Ok(Some(name)) => name,
        _ => remembered_name(uid).unwrap_or_else(|| uid.to_string()),
    }
}

/// The users at the time when the sandbox was entered: it has no access to a file that replaces `/etc/passwd`.
static USERS: OnceLock<Vec<(u32, String)>> = OnceLock::new();
/// Maximum number of users that are remembered.
const USERS_MAX: usize = 10_000;

/// Remembers the names of local users, for [`user_name`].
pub fn remember_users() {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?);
        Some((uid.parse().ok()?, name.to_string()))
    };
    let users = text.lines().filter_map(user).take(USERS_MAX);
    let _ = USERS.set(users.collect());
}

fn remembered_name(uid: u32) -> Option<String> {
    let found = USERS.get()?.iter().find(|(known, _)| *known == uid)?;
    Some(found.1.clone())
}

/// Resolves `server.user` and `server.group`, and checks whether this process may switch to them; `None` if neither
/// is set.
pub fn resolve(user: &str, group: &str) -> Result<Option<UserAndGroup>, IdentityError> {
    let identity = find(user, group)?;
    let current = UserAndGroup::current();
    if identity.is_some_and(|identity| identity != current) && current.uid != 0 {
        return Err(IdentityError::NotRoot {
            user: user.into(),
            group: group.into(),
        });
    }
    Ok(identity)
}

/// Resolves `server.user` and `server.group`; `None` if neither is set.
pub fn find(user: &str, group: &str) -> Result<Option<UserAndGroup>, IdentityError> {
    if user.is_empty() && group.is_empty() {
        return Ok(None);
    }
    let of_user = match user {
        "" => UserAndGroup::current(),
        name => find_user(name)?.ok_or_else(|| IdentityError::NoUser(name.into()))?,
    };
    let gid = match group {
        "" => of_user.gid,
        name => find_group(name)?.ok_or_else(|| IdentityError::NoGroup(name.into()))?,
    };
    Ok(Some(UserAndGroup { gid, ..of_user }))
}

/// Switches, for as long as the result lives, to the user that the server runs as: the configured one, or the owner
/// of the state directory.
pub fn borrow_server_user(config: &Config) -> Result<Option<BorrowedIdentity>, IdentityError> {
    let named = find(&config.server.user, &config.server.group)?;
    let owner = || UserAndGroup::owner_of(&config.state_directory()?);
    match named.or_else(owner) {
        Some(user) => user.borrow(),
        None => Ok(None),
    }
}

/// Checks the result of a system call.
fn check(step: &'static str, result: libc::c_int) -> Result<(), IdentityError> {
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(IdentityError::Refused { step, source })
}

/// Leaves one supplementary group.
fn set_only_group(group: libc::gid_t) -> Result<(), IdentityError> {
    // SAFETY: the list has one element and lives through the call.
    check("setgroups", unsafe { libc::setgroups(1, &group) })
}

impl UserAndGroup {
    /// Returns the effective user and group of this process.
    fn current() -> Self {
        // SAFETY: these calls take no arguments and cannot fail.
        unsafe {
            Self {
                uid: libc::geteuid(),
                gid: libc::getegid(),
            }
        }
    }

    /// Switches to this user permanently. Call before other threads exist.
    pub fn assume(self) -> Result<(), IdentityError> {
        if self == Self::current() {
            return Ok(());
        }
        set_only_group(self.gid)?;
        // SAFETY: plain numbers; sets the real, effective and saved group.
        check("setgid", unsafe { libc::setgid(self.gid) })?;
        // SAFETY: plain numbers; as root it sets the real, effective and saved user.
        check("setuid", unsafe { libc::setuid(self.uid) })?;
        // SAFETY: plain numbers; it must fail, and the process ends if it does not.
        if self.uid != 0 && unsafe { libc::setuid(0) } == 0 {
            return Err(IdentityError::NotForGood);
        }
        Ok(())
    }
}

/// Another user for a limited time: dropping this restores the previous one.
pub struct BorrowedIdentity {
    before: UserAndGroup,
    groups: Vec<libc::gid_t>,
}

impl UserAndGroup {
    /// Returns the owner of a file or directory.
    pub fn owner_of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            uid: metadata.uid(),
            gid: metadata.gid(),
        })
    }

    /// Switches to this user temporarily, in all threads; `None` if that is not needed, or not permitted: only root
    /// may.
    pub fn borrow(self) -> Result<Option<BorrowedIdentity>, IdentityError> {
        let before = Self::current();
        if before == self || before.uid != 0 {
            return Ok(None);
        }
        // SAFETY: a length of 0 only returns the number, and nothing is written.
        let count = unsafe { libc::getgroups(0, ptr::null_mut()) };
        let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the buffer has room for the requested number.
        let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
        groups.truncate(usize::try_from(count).unwrap_or(0));
        // Undone by its drop, also if a step fails.
        let borrowed = BorrowedIdentity { before, groups };
        set_only_group(self.gid)?;
        // SAFETY: plain numbers; the saved group stays.
        check("setegid", unsafe { libc::setegid(self.gid) })?;
        // SAFETY: plain numbers; the saved user stays root, which is restored later.
        check("seteuid", unsafe { libc::seteuid(self.uid) })?;
        Ok(Some(borrowed))
    }
}

impl Drop for BorrowedIdentity {
    fn drop(&mut self) {
        // SAFETY: plain numbers and a list that lives through the call; root is the saved user, which permits all of
        // this.
        let is_back = unsafe {
            libc::seteuid(self.before.uid) == 0
                && libc::setegid(self.before.gid) == 0
                && libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
        };
        debug_assert!(is_back, "root can come back");
    }
}

/// Maximum size of a user database entry.
const ENTRY_MAX: usize = 1 << 20;

/// An entry of the user database.
///
/// # Safety
/// All-zero must be a valid value of the type.
unsafe trait UserEntry {}

// SAFETY: a plain C struct of numbers and pointers that may be null.
unsafe impl UserEntry for libc::passwd {}
// SAFETY: as for users.
unsafe impl UserEntry for libc::group {}

/// Calls a user database look-up with a buffer that grows until the entry fits, and reads the entry.
fn look_up<E: UserEntry, T>(
    call: impl Fn(&mut E, &mut [u8], &mut *mut E) -> i32,
    read: impl FnOnce(&E) -> T,
) -> Result<Option<T>, IdentityError> {
    let mut buffer = vec![0_u8; 4096];
    loop {
        // SAFETY: all-zero is a valid value, as the trait requires.
        let mut entry: E = unsafe { std::mem::zeroed() };
        let mut found = ptr::null_mut();
        match call(&mut entry, &mut buffer, &mut found) {
            0 => return Ok((!found.is_null()).then(|| read(&entry))),
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < ENTRY_MAX => buffer.resize(buffer.len() * 2, 0),
            // getpwnam(3) lists these as further error codes for "no such entry".
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => {
                let error = io::Error::from_raw_os_error(error);
                return Err(IdentityError::Database(error));
            }
        }
    }
}

/// A look-up by name: name, entry, buffer with its length, and the entry that is found.
type NameLookUp<E> = unsafe extern "C" fn(
    *const libc::c_char,
    *mut E,
    *mut libc::c_char,
    libc::size_t,
    *mut *mut E,
) -> libc::c_int;

/// Looks up a name with `getpwnam_r` or `getgrnam_r`.
fn look_up_name<E: UserEntry, T>(
    name: &str,
    call: NameLookUp<E>,
    read: impl FnOnce(&E) -> T,
) -> Result<Option<T>, IdentityError> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let call = |entry: &mut E, buffer: &mut [u8], found: &mut *mut E| {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: every pointer is to memory that lives through the call, and the length is that of the buffer.
        unsafe { call(name.as_ptr(), entry, start, length, found) }
    };
    look_up(call, read)
}

fn find_user(name: &str) -> Result<Option<UserAndGroup>, IdentityError> {
    look_up_name(name, libc::getpwnam_r, |entry| UserAndGroup {
        uid: entry.pw_uid,
        gid: entry.pw_gid,
    })
}

fn find_group(name: &str) -> Result<Option<libc::gid_t>, IdentityError> {
    look_up_name(name, libc::getgrnam_r, |entry| entry.gr_gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_user_setting_no_user_is_looked_up() {
        assert_eq!(resolve("", "").unwrap(), None);
    }

    #[test]
    fn root_is_found_by_name_and_unknown_users_are_not() {
        assert_eq!(
            find_user("root").unwrap(),
            Some(UserAndGroup { uid: 0, gid: 0 })
        );
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_000), "4000000000");
        assert_eq!(find_group("root").unwrap(), Some(0));
        assert_eq!(find_user("no-such-user").unwrap(), None);
        assert_eq!(find_user("nul\0inside").unwrap(), None);
        let error = resolve("no-such-user", "").unwrap_err().to_string();
        assert_eq!(error, "server.user: no such user \"no-such-user\"");
    }
}
