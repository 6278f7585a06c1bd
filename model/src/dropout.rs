//! The range of `dropout`, an option that several models have.

use crate::error::ModelError;

/// Refuses a dropout that would leave nothing.
///
/// # Errors
/// [`ModelError::Setting`].
pub(crate) fn check(dropout: f64) -> Result<(), ModelError> {
    if (0.0..1.0).contains(&dropout) {
        return Ok(());
    }
    let (key, value) = ("train.model_options.dropout", dropout.to_string());
    Err(ModelError::Setting { key, value, expected: "at least 0 and below 1".to_owned() })
}
