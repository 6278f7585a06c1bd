//! What libtorch says, for people: one sentence, without the frames of its C++ stack and without the
//! names of types.

use tch::TchError;

/// How libtorch goes on after the sentence that says what is wrong.
const AND_THEN: [&str; 5] = [
    "Exception raised from",
    "frame #",
    "Debug info for guards",
    "CUDA kernel",
    "Run workload with environment variable",
];

/// Why libtorch, or the reader of tensor files, refused.
#[must_use]
pub fn reason(error: &TchError) -> String {
    match error {
        TchError::Torch(text) => first_sentence(text),
        TchError::SafeTensorError { err, .. } => of_tensor_file(&err.to_string()),
        error => first_sentence(&error.to_string()),
    }
}

/// The first sentence of what libtorch says; of an error inside a script, that of the operation.
pub(crate) fn first_sentence(text: &str) -> String {
    let of_script = text.lines().find_map(|line| line.trim().strip_prefix("RuntimeError: "));
    let line = of_script.or_else(|| text.lines().map(str::trim).find(|line| !line.is_empty()));
    let mut line = line.unwrap_or("libtorch does not say why");
    for and_then in AND_THEN {
        line = line.split(and_then).next().unwrap_or(line);
    }
    line.trim().trim_end_matches(['.', ':']).to_owned()
}

/// The reader shows its errors as the values that they are in the program.
fn of_tensor_file(text: &str) -> String {
    let message = text.split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    match message {
        Some((message, _)) => message.to_owned(),
        None => "it is not in the safetensors format".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_left_out() {
        let check = |text: &str, expected: &str| {
            assert_eq!(reason(&TchError::Torch(text.to_owned())), expected);
        };
        check(
            "PytorchStreamReader failed reading zip archive: not a ZIP archive\n\
             Exception raised from valid at ../caffe2/serialize/inline_container.cc:197 (most recent \
             call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x6c\n",
            "PytorchStreamReader failed reading zip archive: not a ZIP archive",
        );
        check(
            "The following operation failed in the TorchScript interpreter.\n\
             Traceback of TorchScript, serialized code (most recent call last):\n  File \"code\"\n\
             RuntimeError: input.size(-1) must be equal to input_size. Expected 3, got 4\n",
            "input.size(-1) must be equal to input_size. Expected 3, got 4",
        );
        check("out of memory. Exception raised from malloc", "out of memory");
        check("", "libtorch does not say why");
    }

    #[test]
    fn what_libtorch_really_says_is_one_line() {
        let error = tch::CModule::load_data(&mut &[7; 4096][..]).map(drop).unwrap_err();
        let text = reason(&error);
        assert!(!text.is_empty() && !text.contains("frame #"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
