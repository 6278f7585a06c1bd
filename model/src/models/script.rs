//! A TorchScript file of the user's (`torch.jit.script(module).save(path)`), trained like the others.
//!
//! `forward` takes the inputs `[rows, lookback, features]` and, where windows are padded on either side,
//! how many rows of each are real, `[rows]`; it gives `[rows, horizon, targets]` or `[rows, horizon *
//! targets]`; with several heads (`train.loss = "quantile"`) those times as many, heads last. The first weights are those in the file, whatever the seed; parameters without gradients
//! (`requires_grad_(False)`) stay as they are there. The module is in training mode when it learns; one
//! that was traced instead of scripted stays in the mode of its trace.
//!
//! A checkpoint keeps what is learned, not the script: that is read again, and refused if it is no
//! longer the same file. So a script whose state changes besides its parameters, as that of BatchNorm
//! does, is refused: what it learned there would be lost.

use crate::{
    error::ModelError,
    model::{Architecture, Mode, Model, Shape},
    model_size::COPIES,
    parameters::Parameters,
    tensor::Inputs,
    torch_text::reason,
    torchscript::to_bytes,
};
use millstream_data::{Padding, SplitMix64, plain_file};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::OnceLock,
};
use tch::{CModule, Device, Kind, TchError, Tensor};

unsafe extern "C" {
    /// See `cpp/script.cpp`.
    safe fn millstream_optimize_scripts(on: bool) -> bool;
}

/// Which file it is: made by `Default`, and changed field by field.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptOptions {
    /// The file.
    pub path: String,
    /// The xxh3-128 of the file in hexadecimal digits, as `schema.json` has it; empty by default, for a
    /// file of any content.
    pub checksum: String,
    /// What the file held when it was first read: what is described is what is built.
    #[serde(skip)]
    file: OnceLock<Vec<u8>>,
}

impl ScriptOptions {
    /// `path` is no file that could be trained: what it must be instead.
    fn refused(&self, expected: impl Into<String>) -> ModelError {
        let (key, value) = ("train.model_options.path", format!("{:?}", self.path));
        ModelError::Setting { key, value, expected: expected.into() }
    }

    /// The bytes of the file, read once.
    fn file(&self) -> Result<&[u8], ModelError> {
        if self.path.is_empty() {
            return Err(self.refused("the path of a TorchScript file"));
        }
        if self.file.get().is_none() {
            let read = plain_file::read(Path::new(&self.path));
            let bytes =
                read.map_err(|error| self.refused(format!("a file that can be read: {error}")))?;
            let found = checksum(&bytes);
            if !self.checksum.is_empty() && found != self.checksum {
                let expected = &self.checksum;
                return Err(self.refused(format!(
                    "the file with checksum {expected}, and this one has {found}; put that file back"
                )));
            }
            // Another thread may have read the same.
            drop(self.file.set(bytes));
        }
        Ok(self.file.get().expect("it was read just now"))
    }

    /// The module, and those of its parameters that are learned.
    fn load(&self, device: Device) -> Result<(CModule, Parameters), ModelError> {
        let no_script = |error: TchError| {
            self.refused(format!("a file that torch.jit.save wrote: {}", reason(&error)))
        };
        let module = CModule::load_data_on_device(&mut self.file()?, device).map_err(no_script)?;
        let mut parameters = Parameters::default();
        for (name, tensor) in module.named_parameters().map_err(no_script)? {
            if !tensor.requires_grad() {
                continue;
            }
            if tensor.kind() != Kind::Float {
                let kind = tensor.kind();
                let expected = format!("a script of float32: its {name} is {kind:?}");
                return Err(self.refused(expected));
            }
            let same = |other: &Tensor| other.data_ptr() == tensor.data_ptr();
            if let Some(at) = parameters.tensors.iter().position(same) {
                let other = &parameters.names[at];
                let expected = "a script whose parameters are each in a place of its own: its";
                return Err(self.refused(format!("{expected} {other} and {name} are one")));
            }
            parameters.names.push(name);
            parameters.tensors.push(tensor);
        }
        if parameters.names.is_empty() {
            return Err(self.refused("a script with parameters to learn, and it has none"));
        }
        Ok((module, parameters))
    }
}

/// As many digits as in a checkpoint's `checksums.txt`.
fn checksum(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

impl Architecture for ScriptOptions {
    fn name(&self) -> &str {
        "script"
    }

    /// With the checksum of the file, where there is one.
    fn options(&self) -> Value {
        let checksum = self.file().map_or_else(|_| self.checksum.clone(), checksum);
        json!({ "path": self.path, "checksum": checksum })
    }

    fn has_heads(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), ModelError> {
        self.load(Device::Cpu).map(drop)
    }

    fn check_room(&self, _: &Shape, available: u64) -> Result<(), ModelError> {
        // Nearly all of a script are its weights.
        let bytes = self.file()?.len();
        if bytes as f64 * COPIES <= available as f64 {
            return Ok(());
        }
        let most = (available as f64 / COPIES / 1e9, available as f64 / 1e9);
        Err(self.refused(format!(
            "a file of at most {:.1} GB: to train takes {COPIES} times that, and {:.1} GB of memory \
             are there",
            most.0, most.1
        )))
    }

    fn build(&self, shape: &Shape, _: u64, device: Device) -> Result<Box<dyn Model>, ModelError> {
        let (module, parameters) = self.load(device)?;
        let model = Script {
            options: self.clone(),
            module: RefCell::new(module),
            mode: Cell::new(None),
            is_padded: shape.padding != Padding::None,
            forecast: shape.outputs(),
            parameters,
        };
        model.try_out(shape, device)?;
        Ok(Box::new(model))
    }
}

/// The script, its mode and what is learned of it, which lies in the script's own memory.
#[derive(Debug)]
struct Script {
    options: ScriptOptions,
    module: RefCell<CModule>,
    /// `None` for whichever it was saved in.
    mode: Cell<Option<Mode>>,
    is_padded: bool,
    /// The shape of a forecast, of any number of rows.
    forecast: Vec<i64>,
    parameters: Parameters,
}

/// Has libtorch compute scripts as they are written, as long as it is there.
struct AsWritten {
    before: bool,
}

impl AsWritten {
    fn new() -> Self {
        AsWritten { before: millstream_optimize_scripts(false) }
    }
}

impl Drop for AsWritten {
    fn drop(&mut self) {
        millstream_optimize_scripts(self.before);
    }
}

impl Script {
    fn set_mode(&self, mode: Mode) -> Result<(), TchError> {
        if self.mode.replace(Some(mode)) == Some(mode) {
            return Ok(());
        }
        let mut module = self.module.borrow_mut();
        match mode {
            Mode::Train => module.f_set_train(),
            Mode::Evaluate => module.f_set_eval(),
        }
    }

    /// Learns from two windows and forgets it, to say at once what a step, or nobody, would say later.
    fn try_out(&self, shape: &Shape, device: Device) -> Result<(), ModelError> {
        let mut random = SplitMix64::new(1);
        let sizes = [2, shape.lookback, shape.features];
        let values: Vec<f32> = (0..sizes.iter().product()).map(|_| random.uniform(1.0)).collect();
        let values = Tensor::f_from_slice(&values)?.f_view(sizes.map(|size| size as i64))?;
        let lengths = Tensor::f_full([2], shape.lookback as i64, (Kind::Float, device))?;
        let (lengths, values) = (Some(lengths), values.f_to_device(device)?);
        let inputs = Inputs { values, lengths, mask: None, segments: None };

        // In one mode, so that what differs is what the script has changed.
        let state = || {
            self.set_mode(Mode::Evaluate)?;
            to_bytes(&self.module.borrow())
        };
        let before = state()?;
        let forecast = self.forward(&inputs, Mode::Train)?;
        if !forecast.requires_grad() {
            return Err(self.options.refused("a script whose forecast depends on its parameters"));
        }
        let sum = forecast.f_sum(Kind::Float)?;
        let learned = &self.parameters.tensors;
        let gradients = Tensor::f_run_backward(&[&sum], learned, false, false)?;
        if let Some(unused) = gradients.iter().position(|gradient| !gradient.defined()) {
            let name = &self.parameters.names[unused];
            let expected = "a script whose forecast depends on all parameters that have gradients";
            return Err(self.options.refused(format!("{expected}, and on {name} it does not")));
        }
        drop(tch::no_grad(|| self.forward(&inputs, Mode::Evaluate))?);
        if state()? != before {
            return Err(self.options.refused(
                "a script that changes nothing but its parameters when it learns; it has state, as \
                 BatchNorm has, which no checkpoint would keep",
            ));
        }
        Ok(())
    }
}

impl Model for Script {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        self.set_mode(mode)?;
        let lengths = inputs.lengths.as_ref().filter(|_| self.is_padded);
        let arguments: Vec<&Tensor> = std::iter::once(&inputs.values).chain(lengths).collect();
        let forecast = {
            let _as_written = AsWritten::new();
            self.module.borrow().forward_ts(&arguments)?
        };
        let (found, kind) = (forecast.size(), forecast.kind());
        let mut wanted = self.forecast.clone();
        wanted[0] = inputs.values.size()[0];
        let flat = [wanted[0], wanted[1..].iter().product()];
        let fits = found == wanted || found == flat;
        if !fits || !forecast.f_is_floating_point()? {
            let shown = inputs.values.size();
            return Err(self.options.refused(format!(
                "a script that makes {wanted:?} or {flat:?} numbers of {shown:?}, and it made {kind:?} \
                 {found:?}"
            )));
        }
        Ok(forecast.f_reshape(wanted.as_slice())?)
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The file of the user's with what was learned, in evaluation mode. It takes and gives what his does.
    fn as_torchscript(&self) -> Result<Option<Vec<u8>>, ModelError> {
        self.set_mode(Mode::Evaluate)?;
        to_bytes(&self.module.borrow()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::ModelDescription, models::built_in, torchscript::to_torchscript};

    const ROWS: i64 = 3;

    fn shape(padding: Padding) -> Shape {
        Shape {
            batch_size: 8,
            lookback: 4,
            features: 3,
            horizon: 2,
            targets: 1,
            padding,
            ..Shape::LEAST
        }
    }

    /// One of the files that `make.py` wrote.
    fn options(name: &str) -> ScriptOptions {
        let path = format!("{}/tests/scripts/{name}.pt", env!("CARGO_MANIFEST_DIR"));
        ScriptOptions { path, ..ScriptOptions::default() }
    }

    fn model(name: &str) -> Box<dyn Model> {
        options(name).build(&shape(Padding::None), 1, Device::Cpu).unwrap()
    }

    fn inputs() -> Inputs {
        let values: Vec<f32> = (0..ROWS * 12).map(|i| (i as f32 * 0.7).sin()).collect();
        let values = Tensor::from_slice(&values).view([ROWS, 4, 3]);
        let lengths = Some(Tensor::from_slice(&[4.0f32, 2.0, 1.0]));
        Inputs { values, lengths, mask: None, segments: None }
    }

    fn evaluate(model: &dyn Model) -> Tensor {
        tch::no_grad(|| model.forward(&inputs(), Mode::Evaluate)).unwrap()
    }

    /// The error that a file is refused with, without its path.
    fn refused(options: &ScriptOptions, padding: Padding) -> String {
        let built =
            options.check().and_then(|()| options.build(&shape(padding), 1, Device::Cpu).map(drop));
        let text = built.unwrap_err().to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text.replace(&format!("{:?}", options.path), "FILE")
    }

    #[test]
    fn it_forecasts_from_the_weights_in_the_file() {
        let model = model("mlp");
        let parameters = model.parameters();
        assert_eq!(parameters.names, ["inner.weight", "inner.bias", "head.weight", "head.bias"]);
        let [w, b, head, head_bias] = &parameters.tensors[..] else { panic!("{parameters:?}") };
        let hidden = inputs().values.flatten(1, 2).linear(w, Some(b)).tanh();
        let expected = hidden.linear(head, Some(head_bias)).view([ROWS, 2, 1]);
        let found = evaluate(&*model);
        assert_eq!(found.size(), [ROWS, 2, 1]);
        assert!((found - expected).abs().max().double_value(&[]) < 1e-6);
        assert!(
            evaluate(&*model).equal(&evaluate(&*self::model("mlp"))),
            "no seed has a part in it"
        );
    }

    #[test]
    fn modes_change_and_the_same_seed_drops_the_same() {
        let model = model("mlp");
        let learned = || {
            tch::manual_seed(5);
            let forecast = model.forward(&inputs(), Mode::Train).unwrap();
            let loss = forecast.square().sum(Kind::Float);
            Tensor::run_backward(&[loss], &model.parameters().tensors, false, false)
        };
        // libtorch would compute the third call otherwise than the first.
        let first = learned();
        for _ in 0..4 {
            assert!(first.iter().zip(&learned()).all(|(a, b)| a.equal(b)));
        }
        let plain = evaluate(&*model);
        assert!(plain.equal(&evaluate(&*model)));
        assert!(!plain.equal(&model.forward(&inputs(), Mode::Train).unwrap()));
        assert!(plain.equal(&evaluate(&*model)));
    }

    #[test]
    fn what_is_learned_is_kept_and_comes_back() {
        let mut model = model("mlp");
        let before = evaluate(&*model);
        let snapshot = model.parameters().snapshot().unwrap();
        tch::no_grad(|| {
            for tensor in &mut model.parameters_mut().tensors {
                let _ = tensor.f_add_scalar_(0.1).unwrap();
            }
        });
        let after = evaluate(&*model);
        assert!(!after.equal(&before), "what is learned lies in the script");

        let script = to_torchscript(model, &shape(Padding::None)).unwrap();
        let exported = CModule::load_data(&mut &script[..]).unwrap();
        let found = exported.forward_ts(&[inputs().values]).unwrap();
        assert!(found.view([ROWS, 2, 1]).equal(&after));

        let mut model = self::model("mlp");
        model.parameters_mut().restore(&snapshot).unwrap();
        assert!(evaluate(&*model).equal(&before));
    }

    #[test]
    fn where_windows_are_padded_it_takes_lengths_and_what_is_frozen_is_not_learned() {
        for padding in [Padding::Left, Padding::Right] {
            let model = options("mean").build(&shape(padding), 1, Device::Cpu).unwrap();
            assert_eq!(model.parameters().names, ["head.weight"]);
            let real = inputs().lengths.unwrap().view([ROWS, 1]);
            let sum = inputs().values.sum_dim_intlist([1i64].as_slice(), false, Kind::Float);
            let weight = &model.parameters().tensors[0];
            let without_bias = (sum / real * 3.0).matmul(&weight.tr()).view([ROWS, 2, 1]);
            let bias = evaluate(&*model) - without_bias;
            let spread = bias.std_dim(Some([0i64].as_slice()), true, false).max();
            assert!(spread.double_value(&[]) < 1e-6, "{bias}");
        }
        let text = refused(&options("mlp"), Padding::Right);
        assert!(text.starts_with("libtorch: ") && text.contains("argument"), "{text}");
    }

    #[test]
    fn what_cannot_be_trained_is_refused_and_the_reason_named() {
        let check = |options: &ScriptOptions, expected: &str| {
            let text = refused(options, Padding::None);
            let expected = format!("train.model_options.path is FILE, but must be {expected}");
            assert!(text.starts_with(&expected), "{text}");
        };
        check(&ScriptOptions::default(), "the path of a TorchScript file");
        check(&options("nothing"), "a file that can be read: No such file or directory");
        check(&options("."), "a file that can be read: ");
        let source = ScriptOptions { path: file!().replace("model/", ""), ..options("x") };
        check(&source, "a file that torch.jit.save wrote: ");
        check(&options("last"), "a script with parameters to learn, and it has none");
        check(&options("double"), "a script of float32: its inner.weight is Double");
        let state = "a script that changes nothing but its parameters when it learns; it has state";
        check(&options("batch_norm"), state);
        check(&options("counter"), state);
        check(
            &options("unused"),
            "a script whose forecast depends on all parameters that have \
               gradients, and on spare.weight it does not",
        );
        check(
            &options("wide"),
            "a script that makes [2, 2, 1] or [2, 2] numbers of [2, 4, 3], and \
               it made Float [2, 3]",
        );
        check(
            &options("tied"),
            "a script whose parameters are each in a place of its own: its \
               one.weight and two.weight are one",
        );
        let text = refused(&options("pair"), Padding::None);
        assert!(text.starts_with("libtorch: "), "{text}");
    }

    #[test]
    fn a_file_that_has_changed_is_refused_by_whoever_knows_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.pt");
        std::fs::copy(options("mlp").path, &path).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let mine = ScriptOptions { path, ..ScriptOptions::default() };
        let description = ModelDescription::of(&mine);
        let again = built_in(&description).unwrap();
        let model = again.build(&shape(Padding::None), 9, Device::Cpu).unwrap();
        assert!(evaluate(&*model).equal(&evaluate(&*self::model("mlp"))));
        assert_eq!(ModelDescription::of(&*again), description);

        std::fs::copy(options("mean").path, &mine.path).unwrap();
        let text = built_in(&description).unwrap().check().unwrap_err().to_string();
        let was = description.options["checksum"].as_str().unwrap();
        assert!(
            text.contains(&format!("be the file with checksum {was}, and this one has")),
            "{text}"
        );
        // Who has read it already builds what he described.
        assert_eq!(mine.load(Device::Cpu).unwrap().1.names.len(), 4);
        std::fs::remove_file(&mine.path).unwrap();
        let text = built_in(&description).unwrap().check().unwrap_err().to_string();
        assert!(text.contains("mine.pt") && text.contains("No such file"), "{text}");
    }

    #[test]
    fn a_file_larger_than_there_is_room_for_is_refused() {
        let options = options("mlp");
        options.check_room(&Shape::LEAST, 1 << 20).unwrap();
        let text = options.check_room(&Shape::LEAST, 4000).unwrap_err().to_string();
        assert!(text.contains("a file of at most 0.0 GB"), "{text}");
    }
}
