//! Einsum: sums of products over named axes, as transposed and reshaped matrix products.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::reduce;
use super::reshape::extents;
use crate::primitive::{Primitive, ReduceKind};
use std::collections::BTreeMap;

/// An operand and the letters of its axes.
struct Term {
    x: Operand,
    letters: Vec<char>,
}

impl Term {
    fn has(&self, letter: char) -> bool {
        self.letters.contains(&letter)
    }

    fn extent(&self, letter: char) -> i64 {
        let axis = self.letters.iter().position(|&l| l == letter);
        axis.map_or(1, |a| i64::from(self.x.shape().dim(a)))
    }

    /// The diagonals of axes that share a letter, which has one axis then, the last.
    fn diagonal(mut self, b: &mut Builder) -> Fallible<Term> {
        let again = |letters: &[char]| (1..letters.len()).find(|&i| letters[..i].contains(&letters[i]));
        while let Some(second) = again(&self.letters) {
            let letter = self.letters[second];
            let first = self.letters.iter().position(|&l| l == letter).unwrap_or(second);
            let mut order: Vec<usize> = (0..self.letters.len()).filter(|&a| a != first && a != second).collect();
            self.letters = order.iter().map(|&a| self.letters[a]).collect();
            order.extend([first, second]);
            let turned = b.transpose(&self.x, &order)?;
            // Side by side, an element of the diagonal lies a row and a column behind the one before it.
            let mut dims = extents(turned.shape());
            let extent = dims.pop().unwrap_or(1);
            let last = dims.len() - 1;
            dims[last] = extent * extent;
            let flat = b.reshape(&turned, shape_of(&dims)?)?;
            let mut step = vec![1; dims.len()];
            (step[last], dims[last]) = (extent + 1, extent);
            self.x = b.slice(&flat, vec![0; dims.len()], step, shape_of(&dims)?)?;
            self.letters.push(letter);
        }
        Ok(self)
    }

    /// Sums up the axes whose letters nobody keeps.
    fn summed(self, b: &mut Builder, kept: impl Fn(char) -> bool) -> Fallible<Term> {
        let axes: Vec<usize> = (0..self.letters.len()).filter(|&a| !kept(self.letters[a])).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let x = reduce::over(b, &self.x, ReduceKind::Sum, &axes)?;
        let letters: Vec<char> = self.letters.iter().copied().filter(|&l| kept(l)).collect();
        let dims: Vec<i64> = letters.iter().map(|&l| self.extent(l)).collect();
        let x = b.reshape(&x, shape_of(&dims)?)?;
        Ok(Term { x, letters })
    }

    /// The axes in the order of `letters`, which are all of its letters.
    fn ordered(&self, b: &mut Builder, letters: &[char]) -> Fallible<Operand> {
        let perm: Vec<usize> = letters.iter().filter_map(|l| self.letters.iter().position(|m| m == l)).collect();
        b.transpose(&self.x, &perm)
    }
}

/// The equation with letters of its own for the axes that an ellipsis stands for: those of the last of them are the last.
fn written_out(equation: &str, ranks: &[usize]) -> Fallible<String> {
    const ELLIPSIS: &str = "...";
    let plain: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    if !plain.contains(ELLIPSIS) {
        return Ok(plain);
    }
    let wrong = || malformed(format!("`{equation}` for operands of ranks {ranks:?}")).at("equation");
    let free: Vec<char> = ('A'..='Z').filter(|&l| !plain.contains(l)).collect();
    let (left, right) = plain.split_once("->").map_or((&plain[..], None), |(l, r)| (l, Some(r)));
    let (mut terms, mut most) = (Vec::new(), 0);
    for (term, rank) in left.split(',').zip(ranks) {
        let letters = term.replace(ELLIPSIS, "").chars().count();
        let open = rank.checked_sub(letters).filter(|&n| n <= free.len()).ok_or_else(wrong)?;
        most = most.max(if term.contains(ELLIPSIS) { open } else { 0 });
        terms.push((term, open));
    }
    let of = |count: usize| -> String { free[most - count..most].iter().collect() };
    let terms: Vec<String> = terms
        .iter()
        .map(|(t, open)| t.replacen(ELLIPSIS, &of((*open).min(most)), 1))
        .collect();
    let result = match right {
        Some(right) => right.replacen(ELLIPSIS, &of(most), 1),
        None => {
            let mut once: Vec<char> = left
                .chars()
                .filter(|l| l.is_ascii_alphabetic() && left.matches(*l).count() == 1)
                .collect();
            once.sort_unstable();
            of(most) + &once.iter().collect::<String>()
        }
    };
    Ok(format!("{}->{result}", terms.join(",")))
}

/// The letters of the operands and of the result. Without an arrow the result has those that stand once, in their order.
fn parse(equation: &str, operands: usize) -> Fallible<(Vec<Vec<char>>, Vec<char>)> {
    let wrong = |why: &str| malformed(format!("`{equation}`: {why}")).at("equation");
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left.to_owned(), Some(right.to_owned())),
        None => (equation.to_owned(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    if terms.len() != operands {
        return Err(wrong("another number of operands than the node has"));
    }
    let mut count = BTreeMap::new();
    for &letter in terms.iter().flatten() {
        if !letter.is_ascii_alphabetic() {
            return Err(wrong("axes are letters"));
        }
        *count.entry(letter).or_insert(0u32) += 1;
    }
    let result: Vec<char> = match right {
        Some(right) => right.chars().collect(),
        None => count.iter().filter(|(_, n)| **n == 1).map(|(&l, _)| l).collect(),
    };
    for (i, letter) in result.iter().enumerate() {
        if !count.contains_key(letter) || result[..i].contains(letter) {
            return Err(wrong("a letter of the result that no operand has, or that stands twice"));
        }
    }
    Ok((terms, result))
}

pub(super) fn einsum(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let operands = node.all_inputs()?;
    let equation = node.string("equation")?.ok_or_else(|| malformed("missing").at("equation"))?;
    let ranks: Vec<usize> = operands.iter().map(|x| x.shape().rank()).collect();
    let equation = &written_out(equation, &ranks)?[..];
    let (letters, result) = parse(equation, operands.len())?;
    let mut extents = BTreeMap::new();
    for (x, letters) in operands.iter().zip(&letters) {
        let dims = x.shape();
        if dims.rank() != letters.len() {
            return Err(malformed(format!("`{equation}` for an operand {dims}")).at("equation"));
        }
        for (axis, &letter) in letters.iter().enumerate() {
            let extent = *extents.entry(letter).or_insert(dims.dim(axis));
            if extent != dims.dim(axis) {
                return Err(malformed(format!("`{equation}`: axis {letter} is {extent} and {}", dims.dim(axis))).at("equation"));
            }
        }
        if !x.elem().is_float() {
            return Err(unsupported(format!("products of {:?}: Cast the operands to FLOAT", x.elem())));
        }
    }
    let terms = operands.iter().zip(letters).map(|(x, letters)| Term { x: (*x).clone(), letters });
    let mut terms = terms.map(|term| term.diagonal(b)).collect::<Fallible<Vec<_>>>()?.into_iter();
    let mut total = terms.next().ok_or_else(|| malformed("no inputs"))?;
    let rest: Vec<Term> = terms.collect();
    for (i, term) in rest.iter().enumerate() {
        let later = |l: char| result.contains(&l) || rest[i + 1..].iter().any(|t| t.has(l));
        total = product(b, total, term, later)?;
    }
    let total = total.summed(b, |l| result.contains(&l))?;
    total.ordered(b, &result)
}

/// The product of two terms, summed over the letters that are not `kept`.
fn product(b: &mut Builder, left: Term, right: &Term, kept: impl Fn(char) -> bool) -> Fallible<Term> {
    let right = Term {
        x: right.x.clone(),
        letters: right.letters.clone(),
    };
    let (in_left, in_right) = (left.letters.clone(), right.letters.clone());
    let left = left.summed(b, |l| kept(l) || in_right.contains(&l))?;
    let right = right.summed(b, |l| kept(l) || in_left.contains(&l))?;
    let of = |term: &Term, other: &Term, both: bool, keeps: bool| -> Vec<char> {
        let letters = term.letters.iter().copied();
        letters.filter(|&l| other.has(l) == both && kept(l) == keeps).collect()
    };
    let batch = of(&left, &right, true, true);
    let inner = of(&left, &right, true, false);
    let rows = of(&left, &right, false, true);
    let columns = of(&right, &left, false, true);
    let size = |term: &Term, letters: &[char]| letters.iter().map(|&l| term.extent(l)).product::<i64>();
    let (k, m, c) = (size(&left, &inner), size(&left, &rows), size(&right, &columns));
    // The last of the axes that stay apart, which heads are, may lie inside the rows: as one with those before it it would be copied.
    let apart = match batch.split_last() {
        Some((last, before @ [_, ..])) => vec![size(&left, before), left.extent(*last)],
        _ => vec![size(&left, &batch)],
    };
    let matrices = |rows: i64, columns: i64| shape_of(&[&apart[..], &[rows, columns]].concat());
    let a = left.ordered(b, &[batch.clone(), rows.clone(), inner.clone()].concat())?;
    let a = b.reshape(&a, matrices(m, k)?)?;
    let w = right.ordered(b, &[batch.clone(), inner, columns.clone()].concat())?;
    let w = b.reshape(&w, matrices(k, c)?)?;
    let x = b.one(Primitive::MatMul, &[&a, &w], left.x.elem(), matrices(m, c)?)?;
    let mut dims: Vec<i64> = batch.iter().chain(&rows).map(|&l| left.extent(l)).collect();
    dims.extend(columns.iter().map(|&l| right.extent(l)));
    let x = b.reshape(&x, shape_of(&dims)?)?;
    Ok(Term {
        x,
        letters: [batch, rows, columns].concat(),
    })
}
