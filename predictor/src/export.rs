//! A checkpoint's model in a format of others.

use crate::{
    checkpoint::{self, Files},
    contract::{Contract, SCALER, SCHEMA, WEIGHTS},
    error::PredictError,
};
use millstream_data::{BatchLayout, Extras};
use millstream_model::{Forecasting, Shape, TensorFile, built_in};
use std::path::Path;
use tch::Device;

/// The model of a checkpoint as TorchScript: a file for `torch.jit.load`. Scaled inputs `[rows,
/// lookback, features]` in, with any number of rows, and scaled forecasts `[rows, horizon, targets]`
/// out; where `schema.json` says that windows are padded on the right, a second input `[rows]` tells
/// how many rows of each are real, and lookback may be any. A transformer takes these lengths also where
/// windows are padded on the left, and after them the segments `[rows, lookback]` where it has any. A
/// `script` is given as it is, with the weights that were learned: what it makes is then not yet put in
/// order, where it has a head for each quantile, and is a logit with `train.loss = "bce"`.
///
/// Of a model with quantiles, forecasts are `[rows, horizon, targets, quantiles]`; of one that learned with
/// `bce` they are from -1 to 1; of one that learned with `ic` they are scores.
///
/// # Errors
/// The checkpoint is missing or damaged, or its model is none of millstream's own.
pub fn export_torchscript(checkpoint_dir: &Path) -> Result<Vec<u8>, PredictError> {
    let Files { folder, contents: [schema, scaler, bytes] } =
        checkpoint::read(checkpoint_dir, [SCHEMA, SCALER, WEIGHTS])?;
    let Contract { schema, scaling, model, .. } = Contract::parse(&folder, &schema, &scaler)?;
    let layout = BatchLayout {
        batch_size: 1,
        lookback: schema.lookback,
        features: scaling.input_width(),
        horizon: schema.horizon,
        targets: schema.targets.len(),
        extras: Extras::NONE,
    };
    let shape = Shape::of(&layout, &schema, &scaling).with_heads(&model.heads);
    let heads = model.heads.clone();
    let mut model = built_in(&model)?.build(&shape, 0, Device::Cpu)?;
    model.parameters_mut().load(&mut TensorFile::parse(folder.join(WEIGHTS), &bytes)?)?;
    let model = Box::new(Forecasting::new(model, heads));
    Ok(millstream_model::to_torchscript(model, &shape)?)
}
