//! [`Ridge`]: a linear forecast from the last row of a window, for a network to be held against.

/// Coefficients of a linear forecast, in scaled units on both sides:
/// `forecast[l] = intercepts[l] + Σ input[i] * weights[i * labels + l]`, where inputs are those of the
/// window's last row and labels go by step, then target.
#[derive(Debug, Clone, PartialEq)]
pub struct Ridge {
    /// `[inputs, labels]`
    pub weights: Vec<f64>,
    /// `[labels]`
    pub intercepts: Vec<f64>,
}

impl Ridge {
    /// Values of the last row that it reads.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.weights.len() / self.intercepts.len().max(1)
    }
}
