//! The smallest vector with given inner products, by orthogonalisation.

/// The shortest `q` with `q . rows[i] = wanted[i]` for every `i`, all rows of length `dims`. It lies in the
/// span of the rows, so it is built by modified Gram-Schmidt (Golub, Van Loan: Matrix Computations, 5.2.8):
/// each new orthogonal direction repairs the product with its own row and leaves the earlier ones. A row
/// that keeps less than 10^-6 of its squared length after projection is left out.
pub(super) fn smallest_with_products(rows: &[Vec<f64>], wanted: &[f64], dims: usize) -> Vec<f64> {
    let mut q = vec![0.0; dims];
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for (row, want) in rows.iter().zip(wanted) {
        let mut direction = row.clone();
        for unit in &basis {
            let along = dot(&direction, unit);
            add(&mut direction, -along, unit);
        }
        let left = dot(&direction, &direction);
        let is_new = left > 1e-6 * dot(row, row);
        if !is_new {
            continue;
        }
        // dot(direction, row) = left, since the part of `row` outside `direction` is orthogonal to it.
        let missing = want - dot(&q, row);
        add(&mut q, missing / left, &direction);
        let length = left.sqrt();
        for x in &mut direction {
            *x /= length;
        }
        basis.push(direction);
    }
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    for (x, y) in to.iter_mut().zip(from) {
        *x += factor * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_come_out_and_dependent_rows_are_left_out() {
        let rows = vec![vec![1.0, 2.0, 0.5, -1.0], vec![0.5, -1.0, 1.5, 2.0], vec![2.0, 4.0, 1.0, -2.0]];
        let q = smallest_with_products(&rows, &[3.0, -7.0, 100.0], 4);
        assert!((dot(&q, &rows[0]) - 3.0).abs() < 1e-12);
        assert!((dot(&q, &rows[1]) + 7.0).abs() < 1e-12);
        assert!((dot(&q, &rows[2]) - 6.0).abs() < 1e-12, "the third row is twice the first");
        assert_eq!(smallest_with_products(&[], &[], 3), vec![0.0; 3]);
    }
}
