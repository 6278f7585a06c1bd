//! The names of series as small numbers, in the order they are first met.

use crate::{cells::Cells, error::EvaluateError};
use millstream_data::table;
use std::collections::HashMap;

#[derive(Debug, Clone, Default)]
pub(crate) struct SeriesCodes {
    names: Vec<String>,
    codes: HashMap<String, u32>,
}

impl SeriesCodes {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, code: u32) -> &str {
        &self.names[code as usize]
    }

    /// The code of the series of a table without such a column.
    pub(crate) fn only(&mut self) -> u32 {
        self.code(table::ONE_SERIES)
    }

    /// Appends the code of every row.
    pub(crate) fn add(
        &mut self,
        cells: &Cells<'_>,
        into: &mut Vec<u32>,
    ) -> Result<(), EvaluateError> {
        let names = table::series_names(cells.column).map_err(|error| cells.key(error))?;
        let mut last = None;
        for name in names.iter().flatten() {
            // Rows of a series often stand together.
            let code = match last {
                Some((known, code)) if known == name => code,
                _ => self.code(name),
            };
            last = Some((name, code));
            into.push(code);
        }
        Ok(())
    }

    /// The code of every row whose series is known.
    pub(crate) fn known(&self, cells: &Cells<'_>) -> Result<Vec<Option<u32>>, EvaluateError> {
        let names = table::series_names(cells.column).map_err(|error| cells.key(error))?;
        Ok(names.iter().flatten().map(|name| self.codes.get(name).copied()).collect())
    }

    fn code(&mut self, name: &str) -> u32 {
        if let Some(code) = self.codes.get(name) {
            return *code;
        }
        let code = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.codes.insert(name.to_owned(), code);
        code
    }
}
