//! Formulas: read, and computed with doubles.

use std::collections::{BTreeMap, BTreeSet};

/// How deep brackets may stand in one another.
const DEPTH_MAX: usize = 64;
/// Signs, numbers and names of one formula: a sum of so many is as deep as it is long.
const TOKENS_MAX: usize = 2048;
/// 171! is no double any more.
const FACTORIAL_MAX: f64 = 170.0;

const CONSTANTS: &[&str] = &["pi", "Pi", "PI", "π", "e", "E", "tau", "τ"];

/// A formula as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Number(f64),
    Name(String),
    Negative(Box<Formula>),
    Binary(char, Box<Formula>, Box<Formula>),
    Factorial(Box<Formula>),
    Call(String, Vec<Formula>),
    List(Vec<Formula>),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Sign(char),
}

/// Reads `2*x^2 + sin(x)`, with `**` for powers, `[a, b]` for lists and `2x` for products.
pub(super) fn parse(text: &str) -> Result<Formula, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0 };
    let formula = reader.equation()?;
    match reader.tokens.get(reader.at) {
        None => Ok(formula),
        Some(token) => Err(format!("{token:?} is not expected there")),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let text = text.replace("**", "^").replace('−', "-").replace(['·', '×'], "*");
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let start = at;
        if c.is_whitespace() {
            at += 1;
            continue;
        }
        if c.is_ascii_digit() || c == '.' {
            at = number_end(&characters, at);
            let digits: String = characters[start..at].iter().collect();
            let number = digits.parse().map_err(|_| format!("{digits:?} is no number"))?;
            tokens.push(Token::Number(number));
        } else if c.is_alphabetic() || c == '_' {
            while characters.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                at += 1;
            }
            tokens.push(Token::Name(characters[start..at].iter().collect()));
        } else if "+-*/^%!()[]{},=".contains(c) {
            at += 1;
            tokens.push(Token::Sign(c));
        } else {
            return Err(format!("{c:?} has no meaning in a formula"));
        }
        if tokens.len() > TOKENS_MAX {
            return Err(format!("it has more than {TOKENS_MAX} signs"));
        }
    }
    Ok(tokens)
}

/// Digits, a point, and an exponent if one really follows.
fn number_end(characters: &[char], mut at: usize) -> usize {
    let digit = |at: usize| characters.get(at).is_some_and(char::is_ascii_digit);
    while digit(at) || characters.get(at) == Some(&'.') {
        at += 1;
    }
    if matches!(characters.get(at), Some('e' | 'E')) {
        let signed = usize::from(matches!(characters.get(at + 1), Some('+' | '-')));
        if digit(at + 1 + signed) {
            at += 1 + signed;
            while digit(at) {
                at += 1;
            }
        }
    }
    at
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn take(&mut self, sign: char) -> bool {
        let there = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(there);
        there
    }

    /// A sum, perhaps one side of an equation.
    fn equation(&mut self) -> Result<Formula, String> {
        let left = self.sum()?;
        match self.take('=') {
            true => {
                // Two signs mean the same as one.
                self.take('=');
                Ok(Formula::Binary('=', Box::new(left), Box::new(self.sum()?)))
            }
            false => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let mut left = self.product()?;
        loop {
            let sign = match () {
                () if self.take('+') => '+',
                () if self.take('-') => '-',
                () => break,
            };
            left = Formula::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.signed()?;
        loop {
            let sign = match () {
                () if self.take('*') => '*',
                () if self.take('/') => '/',
                () if self.take('%') => '%',
                // `2x` and `2(x + 1)`: a product without its sign.
                () => match self.tokens.get(self.at) {
                    Some(Token::Name(_) | Token::Sign('(')) => '*',
                    _ => break,
                },
            };
            left = Formula::Binary(sign, Box::new(left), Box::new(self.signed()?));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Formula, String> {
        let mut negative = false;
        loop {
            match () {
                () if self.take('-') => negative = !negative,
                () if self.take('+') => {}
                () => break,
            }
        }
        let power = self.power()?;
        Ok(if negative { Formula::Negative(Box::new(power)) } else { power })
    }

    /// Powers bind to the right and stronger than signs: -2^2 is -4.
    fn power(&mut self) -> Result<Formula, String> {
        let mut base = self.atom()?;
        while self.take('!') {
            base = Formula::Factorial(Box::new(base));
        }
        if !self.take('^') {
            return Ok(base);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let exponent = self.signed()?;
        self.depth -= 1;
        Ok(Formula::Binary('^', Box::new(base), Box::new(exponent)))
    }

    fn atom(&mut self) -> Result<Formula, String> {
        let token = self.tokens.get(self.at).cloned().ok_or("it ends too early")?;
        self.at += 1;
        match token {
            Token::Number(number) => Ok(Formula::Number(number)),
            Token::Name(name) if self.take('(') => Ok(Formula::Call(name, self.until(')')?)),
            Token::Name(name) => Ok(Formula::Name(name)),
            Token::Sign('[') => Ok(Formula::List(self.until(']')?)),
            Token::Sign('{') => Ok(Formula::List(self.until('}')?)),
            Token::Sign('(') => {
                let mut inner = self.until(')')?;
                match inner.len() {
                    1 => Ok(inner.remove(0)),
                    _ => Ok(Formula::List(inner)),
                }
            }
            Token::Sign(sign) => Err(format!("{sign:?} is not expected there")),
        }
    }

    /// Formulas between commas, up to the closing sign.
    fn until(&mut self, close: char) -> Result<Vec<Formula>, String> {
        let mut formulas = Vec::new();
        if self.take(close) {
            return Ok(formulas);
        }
        loop {
            formulas.push(self.equation()?);
            if self.take(close) {
                return Ok(formulas);
            }
            if !self.take(',') {
                return Err(format!("{close:?} is missing"));
            }
        }
    }
}

impl Formula {
    /// Its value where the variables have theirs.
    pub fn value(&self, variables: &BTreeMap<String, f64>) -> Result<f64, String> {
        Ok(match self {
            Formula::Number(number) => *number,
            Formula::Name(name) => match (variables.get(name), name.as_str()) {
                (Some(value), _) => *value,
                (None, "pi" | "Pi" | "PI" | "π") => std::f64::consts::PI,
                (None, "e" | "E") => std::f64::consts::E,
                (None, "tau" | "τ") => std::f64::consts::TAU,
                (None, _) => return Err(format!("{name} has no value")),
            },
            Formula::Negative(inner) => -inner.value(variables)?,
            Formula::Factorial(inner) => factorial(inner.value(variables)?),
            Formula::Binary(sign, left, right) => {
                let (left, right) = (left.value(variables)?, right.value(variables)?);
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    '%' => left.rem_euclid(right),
                    '^' => left.powf(right),
                    _ => return Err("an equation has no value".to_owned()),
                }
            }
            Formula::Call(name, arguments) => {
                let values: Result<Vec<f64>, String> =
                    arguments.iter().map(|argument| argument.value(variables)).collect();
                call(name, &values?)?
            }
            Formula::List(_) => return Err("a list has no value".to_owned()),
        })
    }

    /// The names that stand for something.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.walk(|part| {
            if let Formula::Name(name) = part
                && !CONSTANTS.contains(&name.as_str())
            {
                names.insert(name.clone());
            }
        });
        names
    }

    /// How many numbers, names and operations it has.
    pub fn parts(&self) -> usize {
        let mut parts = 0;
        self.walk(|_| parts += 1);
        parts
    }

    fn walk(&self, mut visit: impl FnMut(&Formula)) {
        let mut open = vec![self];
        while let Some(formula) = open.pop() {
            visit(formula);
            match formula {
                Formula::Number(_) | Formula::Name(_) => {}
                Formula::Negative(inner) | Formula::Factorial(inner) => open.push(inner),
                Formula::Binary(_, left, right) => open.extend([&**left, &**right]),
                Formula::Call(_, list) | Formula::List(list) => open.extend(list),
            }
        }
    }
}

fn factorial(value: f64) -> f64 {
    if value < 0.0 || value.fract() != 0.0 || value > FACTORIAL_MAX {
        return f64::NAN;
    }
    (1..=value as u32).fold(1.0, |product, factor| product * f64::from(factor))
}

fn call(name: &str, values: &[f64]) -> Result<f64, String> {
    Ok(match (name.to_ascii_lowercase().as_str(), values) {
        ("sin", [x]) => x.sin(),
        ("cos", [x]) => x.cos(),
        ("tan", [x]) => x.tan(),
        ("sec", [x]) => 1.0 / x.cos(),
        ("csc", [x]) => 1.0 / x.sin(),
        ("cot", [x]) => 1.0 / x.tan(),
        ("asin" | "arcsin", [x]) => x.asin(),
        ("acos" | "arccos", [x]) => x.acos(),
        ("atan" | "arctan", [x]) => x.atan(),
        ("atan2", [y, x]) => y.atan2(*x),
        ("sinh", [x]) => x.sinh(),
        ("cosh", [x]) => x.cosh(),
        ("tanh", [x]) => x.tanh(),
        ("exp", [x]) => x.exp(),
        ("ln" | "log", [x]) => x.ln(),
        ("log", [x, base]) => x.ln() / base.ln(),
        ("log10", [x]) => x.log10(),
        ("log2", [x]) => x.log2(),
        ("sqrt", [x]) => x.sqrt(),
        ("cbrt", [x]) => x.cbrt(),
        ("abs", [x]) => x.abs(),
        ("sign", [x]) => {
            if *x == 0.0 {
                0.0
            } else {
                x.signum()
            }
        }
        ("floor", [x]) => x.floor(),
        ("ceil" | "ceiling", [x]) => x.ceil(),
        ("round", [x]) => x.round(),
        ("pow", [x, y]) => x.powf(*y),
        ("mod", [x, y]) => x.rem_euclid(*y),
        ("hypot", [x, y]) => x.hypot(*y),
        ("factorial", [x]) => factorial(*x),
        ("min", [first, rest @ ..]) => rest.iter().fold(*first, |a, b| a.min(*b)),
        ("max", [first, rest @ ..]) => rest.iter().fold(*first, |a, b| a.max(*b)),
        ("simplify" | "expand" | "factor" | "evaluate" | "n", [x]) => *x,
        _ => return Err(format!("{name} with {} values is not known", values.len())),
    })
}
