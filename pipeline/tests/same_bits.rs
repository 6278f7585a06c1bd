//! A window's forecast has the same bits whoever makes it and whatever is beside it: the trainer in its
//! test, the predictor, of one series or of all, from whatever kind of source.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream::model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, ModelKind, ModelOptions,
    Parameters, Shape,
};
use millstream::{Forecast, Overrides, Settings, Training, Watch};
use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};
use tch::{Device, Tensor};

#[path = "../../loader/tests/loader/support"]
#[expect(dead_code, reason = "the loader's tests use more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}

/// What a model has said of each window, by the bits of what it was shown.
type Said = Arc<Mutex<HashMap<Vec<u32>, Vec<u32>>>>;

/// One of millstream's own models, which notes what it says where it is judged or forecasts.
#[derive(Debug, Clone)]
struct Noting {
    kind: ModelKind,
    said: Said,
}

#[derive(Debug)]
struct Noted {
    model: Box<dyn Model>,
    said: Said,
}

impl Noting {
    fn of(name: &str) -> Self {
        let kind = ModelKind::ALL.iter().find(|kind| kind.name() == name).unwrap();
        Noting { kind: *kind, said: Said::default() }
    }

    fn own(&self) -> Box<dyn Architecture> {
        self.kind.architecture(&ModelOptions::default()).unwrap()
    }
}

impl Architecture for Noting {
    fn name(&self) -> &str {
        "noting"
    }
    fn options(&self) -> serde_json::Value {
        serde_json::json!({})
    }
    fn build(&self, shape: &Shape, seed: u64, on: Device) -> Result<Box<dyn Model>, ModelError> {
        let model = self.own().build(shape, seed, on)?;
        Ok(Box::new(Noted { model, said: Arc::clone(&self.said) }))
    }
}

impl Model for Noted {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        let outputs = self.model.forward(inputs, mode)?;
        if mode == Mode::Evaluate {
            let mut said = self.said.lock().unwrap();
            for row in 0..outputs.size()[0] {
                let [shown, made] = [bits(&inputs.values, row), bits(&outputs, row)];
                said.insert(shown, made);
            }
        }
        Ok(outputs)
    }
    fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        self.model.parameters_mut()
    }
    fn is_random(&self) -> bool {
        self.model.is_random()
    }
}

fn bits(tensor: &Tensor, row: i64) -> Vec<u32> {
    let values: Vec<f32> = Vec::try_from(tensor.get(row).contiguous().flatten(0, -1)).unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

fn settings(folder: &Path, more: &str) -> Settings {
    let mut settings = Settings::from_toml(&format!(
        r#"
        source = {{ cache = "", generate = {{ series = 33, rows = 90, features = 7, short = 0.0 }} }}
        window.lookback = 10
        train.epochs = 2
        train.batch_size = 50
        train.learning_rate = 0.01
        run.threads = 2
        {more}
        "#
    ))
    .unwrap();
    settings.run.dir = folder.join("runs");
    settings
}

/// Of the models that round the same wherever in a batch a window stands (`model/src/evaluate.rs`).
/// The predictor makes other batches than the test: it forecasts windows whose outcome nobody knows, and
/// perhaps one series alone.
#[test]
fn the_predictor_says_what_the_trainer_was_tested_on() {
    for (name, more) in [
        ("lstm", ""),
        ("gru", "window.short = \"pad\"\nwindow.pad = \"right\"\nwindow.min_rows = 3"),
        ("mlp", "window.order = \"by_time\""),
        ("nlinear", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let model = Noting::of(name);
        let training = Training::new(settings(folder.path(), more)).unwrap();
        let run = training.with_model(model.clone()).start().unwrap();
        let report = run.train(&Watch::default()).unwrap().into_report();
        let tested = std::mem::take(&mut *model.said.lock().unwrap());
        let forecast = |symbols: &[&str]| {
            let find = model.clone();
            let find =
                move |_: &ModelDescription| Ok(Box::new(find.clone()) as Box<dyn Architecture>);
            let forecast = Forecast::of(&report.run).with_models(find);
            forecast.symbols(symbols.iter().copied()).write(&Watch::default()).unwrap();
            std::mem::take(&mut *model.said.lock().unwrap())
        };
        let all = forecast(&[]);
        // Validated on before, by other weights, what was tested was so once.
        let both = all.iter().filter_map(|(shown, said)| Some((said, tested.get(shown)?)));
        let both: Vec<_> = both.collect();
        assert!(both.len() > 300, "{name}: {}", both.len());
        assert!(both.iter().all(|(said, tested)| said == tested), "{name}");
        let one = forecast(&["S017"]);
        assert!(one.len() >= 10, "{name}: {}", one.len());
        assert!(one.iter().all(|(shown, said)| all[shown] == *said), "{name}: alone");
    }
}

const TABLE: &str = "symbol,trade_date,close,f1";

fn rows() -> impl Iterator<Item = (String, String, f32, f32)> {
    (0..15).flat_map(|series| {
        (0..100).map(move |row| {
            let wave = ((row * (series + 2)) as f32 * 0.37).sin();
            let day = format!("2020-{:02}-{:02}", row / 25 + 1, row % 25 + 1);
            (format!("s{series:02}"), day, 50.0 + 10.0 * wave + series as f32, wave * 0.5)
        })
    })
}

fn parquet(path: &Path) {
    use arrow::array::{ArrayRef, Date32Array, Float32Array, RecordBatch, StringArray};
    let day = |text: &str| {
        let days = millstream_data::TimeKind::Date.parse(text).unwrap() / 86_400_000_000;
        i32::try_from(days).unwrap()
    };
    let columns: [(&str, ArrayRef); 4] = [
        ("symbol", Arc::new(StringArray::from_iter_values(rows().map(|row| row.0)))),
        ("trade_date", Arc::new(Date32Array::from_iter_values(rows().map(|row| day(&row.1))))),
        ("close", Arc::new(Float32Array::from_iter_values(rows().map(|row| row.2)))),
        ("f1", Arc::new(Float32Array::from_iter_values(rows().map(|row| row.3)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Fills a table; gives how it is reached.
fn postgres(server: &support::server::Server) -> String {
    let mut client = postgres::Client::connect(server.url(), postgres::NoTls).unwrap();
    let table = "millstream_test_same_bits";
    client
        .batch_execute(&format!(
            "drop table if exists {table}; create table {table} \
             (symbol text, trade_date date, close float4, f1 float4)"
        ))
        .unwrap();
    let mut copy = client.copy_in(&format!("copy {table} from stdin (format csv)")).unwrap();
    for (symbol, day, close, f1) in rows() {
        std::io::Write::write_all(&mut copy, format!("{symbol},{day},{close},{f1}\n").as_bytes())
            .unwrap();
    }
    copy.finish().unwrap();
    table.to_owned()
}

#[test]
fn postgresql_parquet_and_csv_give_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = rows().map(|(symbol, day, close, f1)| format!("{symbol},{day},{close},{f1}\n"));
    fs::write(path("rows.csv"), format!("{TABLE}\n{}", text.collect::<String>())).unwrap();
    parquet(&path("rows.parquet"));
    let server = support::server::Server::start();
    let table = postgres(&server);
    let mut settings = Settings::from_toml(
        "source = { kind = \"csv\", cache = \"\" }\ntarget.columns = [\"close\"]\n\
         window.lookback = 10\ntrain = { epochs = 1, batch_size = 64, model_options.hidden = 8 }",
    )
    .unwrap();
    settings.source.path = Some(path("rows.csv").to_str().unwrap().to_owned());
    settings.run.dir = path("runs");
    let run = millstream::train(settings).unwrap().run;
    let forecasts = |name: &str, set: &[String]| {
        let changes = Overrides::of(set.iter().cloned());
        Forecast::of(&run).with(changes).output(path(name)).write(&Watch::default()).unwrap();
        fs::read_to_string(path(name)).unwrap()
    };
    let csv = forecasts("csv.csv", &[]);
    assert!(csv.lines().count() > 200, "{csv}");
    let file = format!("source.path={}", path("rows.parquet").display());
    let parquet = forecasts("parquet.csv", &["source.kind=parquet".to_owned(), file]);
    assert_eq!(parquet, csv);
    let database = [
        "source.kind=postgres".to_owned(),
        format!("source.url={}", server.url()),
        format!("source.table={table}"),
    ];
    let postgres = forecasts("postgres.csv", &database);
    assert_eq!(postgres, csv);
}
