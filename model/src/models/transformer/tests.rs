//! The network is the published one, padding has no part in it, and how it is computed changes nothing.

use super::*;
use crate::torchscript::to_torchscript;
use tch::CModule;

const LOOKBACK: usize = 12;
const FEATURES: usize = 5;

fn shape(padding: Padding) -> Shape {
    Shape {
        batch_size: 64,
        lookback: LOOKBACK,
        features: FEATURES,
        horizon: 3,
        targets: 2,
        padding,
        ..Shape::LEAST
    }
}

fn options(layers: usize) -> TransformerOptions {
    let size = |value| NonZeroUsize::new(value).unwrap();
    TransformerOptions {
        width: size(16),
        layers: size(layers),
        feedforward: size(24),
        ..TransformerOptions::default()
    }
}

fn model(options: TransformerOptions, padding: Padding) -> Transformer {
    Transformer::new(options, &shape(padding), 42, Device::Cpu).unwrap()
}

fn values(rows: usize) -> Tensor {
    let mut random = SplitMix64::new(rows as u64);
    let values: Vec<f32> = (0..rows * LOOKBACK * FEATURES).map(|_| random.uniform(2.0)).collect();
    Tensor::from_slice(&values).view([rows as i64, LOOKBACK as i64, FEATURES as i64])
}

fn unpadded(values: &Tensor) -> Inputs {
    Inputs { values: values.shallow_clone(), lengths: None, mask: None, segments: None }
}

/// The last rows of windows, so many of each, with this in place of the others.
fn padded(padding: Padding, lengths: &[i64], filling: f64) -> Inputs {
    let longest = match padding {
        Padding::Right => *lengths.iter().max().unwrap(),
        _ => LOOKBACK as i64,
    };
    let whole = values(lengths.len());
    let host = (Kind::Float, Device::Cpu);
    let out = Tensor::full([lengths.len() as i64, longest, FEATURES as i64], filling, host);
    let mask = Tensor::zeros([lengths.len() as i64, longest], host);
    for (row, &length) in (0..).zip(lengths) {
        let at = if padding == Padding::Right { 0 } else { longest - length };
        let real = whole.select(0, row).narrow(0, LOOKBACK as i64 - length, length);
        out.select(0, row).narrow(0, at, length).copy_(&real);
        let _ = mask.select(0, row).narrow(0, at, length).fill_(1.0);
    }
    let lengths = Tensor::from_slice(lengths).to_kind(Kind::Float);
    Inputs { values: out, lengths: Some(lengths), mask: Some(mask), segments: None }
}

fn evaluate(model: &Transformer, inputs: &Inputs) -> Tensor {
    tch::no_grad(|| model.forward(inputs, Mode::Evaluate)).unwrap()
}

/// The forecast and the gradient of every parameter.
fn learned(model: &Transformer, inputs: &Inputs) -> Vec<Tensor> {
    tch::manual_seed(7);
    let forecast = model.forward(inputs, Mode::Train).unwrap();
    let loss = forecast.square().mean(Kind::Float);
    let mut found = Tensor::run_backward(&[loss], &model.parameters.tensors, false, false);
    found.push(forecast.detach());
    found
}

fn check_close(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.size(), expected.size(), "{what}");
    let difference = (found - expected).abs().max().double_value(&[]);
    assert!(difference < 1e-6, "{what} differs by {difference}");
}

fn check_same(found: &[Tensor], expected: &[Tensor], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(found.isfinite().all().int64_value(&[]) == 1, "{what}: tensor {number}");
        assert!(found.equal(expected), "{what}: tensor {number}");
    }
}

#[test]
fn names_and_shapes_are_those_of_pytorch() {
    let model = model(TransformerOptions { segments: 4, ..options(1) }, Padding::None);
    let parameters = model.parameters();
    let sizes = parameters.tensors.iter().map(Tensor::size);
    let found: Vec<(&str, Vec<i64>)> =
        parameters.names.iter().map(String::as_str).zip(sizes).collect();
    assert_eq!(
        found,
        [
            ("embed.weight", vec![16, 5]),
            ("embed.bias", vec![16]),
            ("positions.weight", vec![12, 16]),
            ("segments.weight", vec![4, 16]),
            ("layers.0.self_attn.in_proj_weight", vec![48, 16]),
            ("layers.0.self_attn.in_proj_bias", vec![48]),
            ("layers.0.self_attn.out_proj.weight", vec![16, 16]),
            ("layers.0.self_attn.out_proj.bias", vec![16]),
            ("layers.0.linear1.weight", vec![24, 16]),
            ("layers.0.linear1.bias", vec![24]),
            ("layers.0.linear2.weight", vec![16, 24]),
            ("layers.0.linear2.bias", vec![16]),
            ("layers.0.norm1.weight", vec![16]),
            ("layers.0.norm1.bias", vec![16]),
            ("layers.0.norm2.weight", vec![16]),
            ("layers.0.norm2.bias", vec![16]),
            ("norm.weight", vec![16]),
            ("norm.bias", vec![16]),
            ("head.weight", vec![6, 16]),
            ("head.bias", vec![6]),
        ]
    );
    let largest = |at: usize| parameters.tensors[at].abs().max().double_value(&[]);
    let projections = (6.0f64 / 64.0).sqrt();
    assert!(largest(4) <= projections && largest(4) > 0.9 * projections);
    assert!(largest(2) <= 0.035 && largest(5) == 0.0 && largest(12) == 1.0);
}

/// Every row of every layer, written out as the PyTorch manual does, with a softmax.
fn by_hand(model: &Transformer, values: &Tensor) -> Tensor {
    let p = &model.parameters.tensors;
    let width = model.options.width.get() as i64;
    let heads = model.options.heads.get() as i64;
    let norm = |x: &Tensor, at: usize| {
        let mean = x.mean_dim([-1i64].as_slice(), true, Kind::Float);
        let variance = (x - &mean).square().mean_dim([-1i64].as_slice(), true, Kind::Float);
        (x - mean) / (variance + 1e-5).sqrt() * &p[at] + &p[at + 1]
    };
    let mut x = values.linear(&p[0], Some(&p[1])) + &p[2];
    for layer in 0..model.options.layers.get() {
        let at = 3 + 12 * layer;
        let projected = norm(&x, at + 8).matmul(&p[at].tr()) + &p[at + 1];
        let attended: Vec<Tensor> = (0..heads)
            .map(|head| {
                let size = width / heads;
                let part = |i: i64| projected.narrow(2, i * width + head * size, size);
                let scores = part(0).matmul(&part(1).transpose(1, 2)) / (size as f64).sqrt();
                scores.softmax(-1, Kind::Float).matmul(&part(2))
            })
            .collect();
        x = &x + Tensor::cat(&attended, 2).linear(&p[at + 2], Some(&p[at + 3]));
        let inside = norm(&x, at + 10).linear(&p[at + 4], Some(&p[at + 5]));
        let inside = &inside * ((&inside / 2f64.sqrt()).erf() + 1.0) * 0.5;
        x = &x + inside.linear(&p[at + 6], Some(&p[at + 7]));
    }
    let end = p.len() - 4;
    let last = norm(&x, end).select(1, -1);
    last.linear(&p[end + 2], Some(&p[end + 3])).view([-1, 3, 2])
}

#[test]
fn forward_is_the_published_network() {
    for layers in [1, 3] {
        let model = model(options(layers), Padding::None);
        let x = values(4);
        let expected = tch::no_grad(|| by_hand(&model, &x));
        check_close(&evaluate(&model, &unpadded(&x)), &expected, &format!("{layers} layers"));
    }
}

#[test]
fn what_is_written_in_padding_changes_no_bit() {
    let lengths = [5, 1, 12, 3];
    for padding in [Padding::Left, Padding::Right] {
        for dropout in [0.0, 0.3] {
            let model = model(TransformerOptions { dropout, ..options(2) }, padding);
            let zeros = padded(padding, &lengths, 0.0);
            let (forecast, gradients) = (evaluate(&model, &zeros), learned(&model, &zeros));
            for filling in [1.0, -1e30, f64::NAN, f64::INFINITY] {
                let filled = padded(padding, &lengths, filling);
                let what = format!("{padding:?}, {filling}");
                check_same(&[evaluate(&model, &filled)], &[forecast.shallow_clone()], &what);
                check_same(&learned(&model, &filled), &gradients, &what);
            }
        }
    }
}

#[test]
fn a_padded_window_has_the_forecast_of_the_window() {
    let lengths = [5, 1, 7, 3];
    let whole = model(options(2), Padding::None);
    for padding in [Padding::Left, Padding::Right] {
        let found = evaluate(&model(options(2), padding), &padded(padding, &lengths, 0.0));
        for (row, &length) in (0..).zip(&lengths) {
            let window = values(4).narrow(0, row, 1).narrow(1, LOOKBACK as i64 - length, length);
            let alone = evaluate(&whole, &unpadded(&window));
            check_close(&found.narrow(0, row, 1), &alone, &format!("{padding:?}, {length}"));
        }
    }
}

/// Rows that nobody may look at, and positions that stand in no window.
#[test]
fn padded_rows_have_no_gradient() {
    let rows_of = |gradient: &Tensor| -> Vec<bool> {
        let by_row = gradient.abs().sum_dim_intlist([-1i64].as_slice(), false, Kind::Double);
        (0..by_row.size()[0]).map(|row| by_row.double_value(&[row]) > 0.0).collect()
    };
    let check = |padding, expected: &[bool]| {
        let model = model(options(2), padding);
        let inputs = padded(padding, &[2, 4], 0.5);
        let values = inputs.values.set_requires_grad(true);
        let inputs = Inputs { values, ..inputs };
        model.forward(&inputs, Mode::Train).unwrap().sum(Kind::Float).backward();
        assert_eq!(rows_of(&inputs.values.grad().select(0, 0)), expected, "{padding:?}");
        let positions: Vec<bool> = (0..12).map(|position| position >= 8).collect();
        assert_eq!(rows_of(&model.parameters.tensors[2].grad()), positions, "{padding:?}");
    };
    let left: Vec<bool> = (0..12).map(|row| row >= 10).collect();
    check(Padding::Left, &left);
    check(Padding::Right, &[true, true, false, false]);
}

/// Attention is computed in blocks of keys, of which some are padding altogether.
#[test]
fn a_long_window_may_be_padding_almost_all_of_it() {
    let lookback = 1400;
    let shape = Shape { lookback, features: 2, ..shape(Padding::Left) };
    let model = Transformer::new(options(2), &shape, 1, Device::Cpu).unwrap();
    let values = Tensor::ones([2, lookback as i64, 2], (Kind::Float, Device::Cpu));
    let lengths = Some(Tensor::from_slice(&[3.0f32, 700.0]));
    let inputs = Inputs { values, lengths, mask: None, segments: None };
    let found = learned(&model, &inputs);
    check_same(&found, &found, "finite");
}

fn with_segments(inputs: Inputs, segments: &Tensor) -> Inputs {
    Inputs { segments: Some(segments.shallow_clone()), ..inputs }
}

#[test]
fn segments_are_added_row_by_row() {
    let model = model(TransformerOptions { segments: 4, ..options(1) }, Padding::None);
    let x = values(3);
    let numbers: Vec<f32> = (0..36).map(|i| ((i * i + i / 5) % 4) as f32).collect();
    let inputs = with_segments(unpadded(&x), &Tensor::from_slice(&numbers).view([3, 12]));
    let _guard = tch::no_grad_guard();
    let found = model.embedded(&inputs, None).unwrap();
    let p = &model.parameters.tensors;
    for window in 0..3 {
        for row in 0..12 {
            let segment = numbers[(window * 12 + row) as usize] as i64;
            let value = x.select(0, window).narrow(0, row, 1).linear(&p[0], Some(&p[1]));
            let expected = value.squeeze_dim(0) + p[2].select(0, row) + p[3].select(0, segment);
            check_close(&found.select(0, window).select(0, row), &expected, "a row");
        }
    }
}

#[test]
fn segments_that_there_is_no_room_for_are_refused() {
    let check = |segments: usize, found: usize, expected: &str| {
        let options = TransformerOptions { segments, ..options(1) };
        let error = options.check().and_then(|()| options.check_segments(found));
        let text = error.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(text, expected);
    };
    check(4, 4, "");
    check(0, 0, "");
    check(
        4,
        6,
        "train.model_options.segments is 4, but must be at least 6: the segments of the data go up to 5",
    );
    check(4, 0, "train.model_options.segments is 4, but must be 0 without window.segment");
    check(65_537, 0, "train.model_options.segments is 65537, but must be at most 65536");
    // Of batches made by hand libtorch says it.
    let model = model(TransformerOptions { segments: 4, ..options(1) }, Padding::None);
    let high = Tensor::full([2, 12], 4.0, (Kind::Float, Device::Cpu));
    let inputs = with_segments(unpadded(&values(2)), &high);
    let text = model.forward(&inputs, Mode::Evaluate).unwrap_err().to_string();
    assert!(text.starts_with("libtorch: index out of range"), "{text}");
    assert!(model.forward(&unpadded(&values(2)), Mode::Evaluate).is_err());
    // Segments that would not be looked at, too.
    let none = self::model(options(1), Padding::None);
    assert!(none.forward(&inputs, Mode::Evaluate).is_err());
}

#[test]
fn gradient_checkpointing_changes_no_bit() {
    for (padding, lengths) in [
        (Padding::None, vec![12, 12, 12]),
        (Padding::Left, vec![4, 12, 1]),
        (Padding::Right, vec![4, 9, 1]),
    ] {
        for dropout in [0.0, 0.4] {
            let learned = |checkpoint| {
                let options = TransformerOptions { dropout, checkpoint, ..options(3) };
                learned(&model(options, padding), &padded(padding, &lengths, 0.0))
            };
            check_same(&learned(true), &learned(false), &format!("{padding:?}, {dropout}"));
        }
    }
}

fn script(model: Transformer) -> CModule {
    let shape = shape(model.padding);
    CModule::load_data(&mut &to_torchscript(Box::new(model), &shape).unwrap()[..]).unwrap()
}

#[test]
fn the_trace_holds_for_any_number_of_rows_and_on_the_right_any_lookback() {
    let _guard = tch::no_grad_guard();
    let with = TransformerOptions { segments: 3, dropout: 0.3, ..options(2) };
    let traced = script(model(with, Padding::None));
    for rows in [1, 7, 64] {
        let segments = Tensor::ones([rows as i64, 12], (Kind::Float, Device::Cpu));
        let inputs = with_segments(unpadded(&values(rows)), &segments);
        let found = traced.forward_ts(&[&inputs.values, &segments]).unwrap();
        check_close(&found, &evaluate(&model(with, Padding::None), &inputs), "unpadded");
    }
    for padding in [Padding::Left, Padding::Right] {
        let traced = script(model(options(2), padding));
        for lengths in [&[12, 1][..], &[3], &[1, 1, 1], &[2, 7, 4, 5, 6]] {
            let inputs = padded(padding, lengths, 0.0);
            let lengths = inputs.lengths.as_ref().unwrap();
            let found = traced.forward_ts(&[&inputs.values, lengths]).unwrap();
            let what = format!("{padding:?}, {lengths}");
            check_close(&found, &evaluate(&model(options(2), padding), &inputs), &what);
        }
    }
}

#[test]
fn dropout_is_off_in_evaluation() {
    let model = model(TransformerOptions { dropout: 0.5, ..options(1) }, Padding::None);
    assert!(model.is_random() && !self::model(options(1), Padding::None).is_random());
    let inputs = unpadded(&values(8));
    let forward = |mode| tch::no_grad(|| model.forward(&inputs, mode)).unwrap();
    assert!(forward(Mode::Evaluate).equal(&forward(Mode::Evaluate)));
    assert!(!forward(Mode::Train).equal(&forward(Mode::Train)));
}

#[test]
fn what_is_out_of_range_or_cannot_fit_is_refused() {
    let check = |change: &dyn Fn(&mut TransformerOptions), expected: &str| {
        let mut options = TransformerOptions::default();
        change(&mut options);
        let checked =
            options.check().and_then(|()| options.check_room(&Shape::LEAST, 16_000_000_000));
        let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
        assert!(found.starts_with(expected), "{found}");
    };
    let size = |value: usize| NonZeroUsize::new(value).unwrap();
    check(&|_| (), "");
    check(
        &|o| o.dropout = -0.1,
        "train.model_options.dropout is -0.1, but must be at least 0 and ",
    );
    check(
        &|o| o.heads = size(3),
        "train.model_options.heads is 3, but must be a divisor of train.model_options.width, which is 64",
    );
    type Change = fn(&mut TransformerOptions, NonZeroUsize);
    let changes: [(&str, Change); 3] = [
        ("width", |o, x| o.width = x),
        ("layers", |o, x| o.layers = x),
        ("feedforward", |o, x| o.feedforward = x),
    ];
    for (key, change) in changes {
        for extreme in [1 << 31, 1 << 40, 1 << 63] {
            let expected = format!("train.model_options.{key} is {extreme}, but must be at most ");
            check(&|o| change(o, size(extreme)), &expected);
        }
    }
}
