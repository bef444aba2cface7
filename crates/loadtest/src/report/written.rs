//! How figures are written for people: no more digits than they are worth, and the unit last.

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// As `1 gateway` and `3 gateways`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Three digits that matter, as `0.417`, `12.3` and `1,234`.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 && value > 0.0 => count(value.round() as u64),
        size if size >= 99.95 => format!("-{}", count(size.round() as u64)),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// As `12.3 ms`, and from ten seconds on as `12.3 s`.
pub(crate) fn ms(value: f64) -> String {
    if value < 10_000.0 {
        format!("{} ms", number(value))
    } else {
        format!("{} s", number(value / 1000.0))
    }
}

/// As `3.42 KiB` or `1.50 GiB`.
pub(crate) fn bytes(value: f64) -> String {
    const UNITS: [&str; 4] = ["bytes", "KiB", "MiB", "GiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 { format!("{value:.0}") } else { number(value) };
    format!("{digits} {}", UNITS[unit])
}

/// As `42 s`, `10 min` or `1 h 5 min 3 s`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let parts = [(whole / 3600, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(amount, _)| *amount > 0)
        .map(|(amount, unit)| format!("{amount} {unit}"))
        .collect();
    if parts.is_empty() { format!("{} s", number(seconds)) } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter_and_thousands_are_parted() {
        let table = [(0.0, "0.00"), (0.4167, "0.417"), (4.1236, "4.12"), (9.996, "10.0")];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(99.96), "100");
        assert_eq!(number(-1_234.4), "-1,234");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn one_is_one_and_not_many() {
        assert_eq!(counted(1, "gateway"), "1 gateway");
        assert_eq!(counted(0, "gateway"), "0 gateways");
        assert_eq!(counted(3, "gateway"), "3 gateways");
    }

    #[test]
    fn units_grow_with_what_they_measure() {
        assert_eq!(ms(9_999.0), "9,999 ms");
        assert_eq!(ms(12_340.0), "12.3 s");
        assert_eq!(bytes(2_097.0), "2.05 KiB");
        assert_eq!(bytes(-512.0), "-512 bytes");
        assert_eq!(bytes(3.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0), "3,072 GiB");
        assert_eq!(span(600.2), "10 min");
        assert_eq!(span(3_903.0), "1 h 5 min 3 s");
        assert_eq!(span(0.3), "0.300 s");
    }
}
