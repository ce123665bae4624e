//! Errors of the driver in the program's words.

use cudarc::driver::DriverError;

use super::Error;

/// An error of the driver, with the operation that failed.
pub(super) fn failed(action: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| {
        let text = |text: Result<&std::ffi::CStr, _>| text.map(|text| text.to_string_lossy().into_owned());
        let reason = text(error.error_string()).unwrap_or_else(|_: DriverError| format!("{:?}", error.0));
        Error::Driver { what: action, reason }
    }
}
