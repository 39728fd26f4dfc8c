//! Sends a request to the control socket of the running server, or with `--server` to the API of a remote one, or executes it on the stores themselves if none runs.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nameward_control::{
    operations::{
        ConfigFile, ControlRequest, ErrorKind, ListedItem, OperationError, OperationRequest,
        OperationResult, RequestReach,
    },
    socket::{self, ControlError},
};
use nameward_state::{StateError, StoreUser};

use crate::{
    api_client,
    command_error::{CommandError, CommandResult},
    config::{
        Overrides,
        error::ConfigError,
        location::{self, resolved},
    },
    control_location::DefaultLocation,
    offline,
};

/// How long a command waits for another one that uses the stores, and for a server that is stopping; and the polling
/// interval. A starting server has its control socket before it has the stores.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Sends a request to the server of a configuration, or executes it on its stores if the server does not run. Passes
/// on the items of a listing and returns the result.
pub fn send(
    request: OperationRequest,
    overrides: &Overrides,
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<OperationResult> {
    if api_client::is_selected() {
        let request = ControlRequest {
            config: None,
            message: overrides.message.clone(),
            request,
        };
        return api_client::send(&request, each);
    }
    let started = Instant::now();
    loop {
        let absent = match send_to_server(&request, overrides, each) {
            Err(CommandError::Control(error)) if is_absent(&error) => error,
            done => return done,
        };
        let Some(file) = overrides
            .file
            .clone()
            .or_else(|| match overrides.control_socket {
                Some(_) => None,
                None => location::default_file(),
            })
        else {
            return Err(absent.into());
        };
        if request.reach() == RequestReach::Server {
            return Err(absent.into());
        }
        match offline::run(&request, (&file, overrides), each) {
            Err(CommandError::State(StateError::InUse(_, user)))
                if started.elapsed() < lock_timeout(user) =>
            {
                thread::sleep(RETRY_INTERVAL);
            }
            Err(CommandError::State(error @ StateError::InUse(..))) => {
                let text = format!("{absent}; cannot use the stores directly: {error}");
                return Err(OperationError::new(ErrorKind::NotRunning, text).into());
            }
            done => return done,
        }
    }
}

/// Sends a request for a listing, and returns what `pick` takes from its items.
pub fn list<T>(
    request: OperationRequest,
    overrides: &Overrides,
    mut pick: impl FnMut(ListedItem) -> Option<T>,
) -> CommandResult<Vec<T>> {
    let mut picked = Vec::new();
    send(request, overrides, &mut |item| picked.extend(pick(item)))?;
    Ok(picked)
}

/// Sends a request, and returns what `pick` takes from its result.
pub fn fetch<T>(
    request: OperationRequest,
    overrides: &Overrides,
    pick: impl FnOnce(OperationResult) -> Option<T>,
) -> CommandResult<T> {
    let result = send(request, overrides, &mut drop)?;
    pick(result).ok_or(CommandError::Interrupted)
}

/// Picks the items of one kind from a listing, or results of one kind.
macro_rules! only {
    ($kind:ident) => {
        only!(ListedItem, $kind)
    };
    ($type:ident, $kind:ident) => {
        |found| match found {
            nameward_control::operations::$type::$kind(found) => Some(found),
            _ => None,
        }
    };
}
pub(crate) use only;

fn lock_timeout(user: StoreUser) -> Duration {
    match user {
        StoreUser::Server => SERVER_TIMEOUT,
        StoreUser::Command => COMMAND_TIMEOUT,
    }
}

/// Checks whether an error means that no server of the configuration runs. A server that does not answer, or denies
/// access, does not count.
fn is_absent(error: &ControlError) -> bool {
    match error {
        ControlError::NotRunning(_, error) => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ),
        ControlError::Failed(error) => error.kind == ErrorKind::NotRunning,
        ControlError::Broken(_) | ControlError::Cut | ControlError::StillStopping => false,
    }
}

fn send_to_server(
    request: &OperationRequest,
    overrides: &Overrides,
    each: &mut dyn FnMut(ListedItem),
) -> CommandResult<OperationResult> {
    // The server rejects the request if it runs with another configuration.
    let config = overrides.file.as_deref().map(config_file).transpose()?;
    let path = control_socket(overrides)?;
    let request = ControlRequest {
        config,
        message: overrides.message.clone(),
        request: request.clone(),
    };
    Ok(socket::send_request(&path, &request, each)?)
}

/// Returns the path of the server's control socket.
pub fn control_socket(overrides: &Overrides) -> Result<PathBuf, ConfigError> {
    let mut path = overrides.control_socket.clone();
    if path.is_none() {
        path = match (&overrides.file, location::default_file()) {
            (Some(file), _) => location::control_socket(file)?,
            // An invalid default file is ignored: the server may run with another one.
            (None, Some(file)) => location::control_socket(&file).ok().flatten(),
            (None, None) => None,
        };
    }
    Ok(path.unwrap_or_else(|| DefaultLocation::for_this_process().path()))
}

fn config_file(path: &Path) -> Result<ConfigFile, ConfigError> {
    let metadata =
        fs::metadata(path).map_err(|error| ConfigError::Unreadable(path.to_path_buf(), error))?;
    Ok(ConfigFile {
        path: resolved(path),
        identity: (metadata.dev(), metadata.ino()),
    })
}
