//! The forty capabilities that everybody knows, with their versions.

use serde_json::Value;
use skep_base::Timestamp;

use super::{DEPRECATION_DAYS, Version, find};

pub(super) const V0: &str = "v0";
pub(super) const V1: &str = "v1";
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// 2026-05-10: the taxonomy's first day.
const V0_SINCE: Timestamp = Timestamp::from_ms(20_583 * DAY_MS);
/// 2026-11-15.
const V1_SINCE: Timestamp = Timestamp::from_ms(20_772 * DAY_MS);
pub(super) const VERSIONS: &[Version] = &[
    Version {
        name: V0,
        since: V0_SINCE,
        ends: Some(Timestamp::from_ms(V1_SINCE.as_ms() + DEPRECATION_DAYS * DAY_MS)),
    },
    Version { name: V1, since: V1_SINCE, ends: None },
];

/// A row of the taxonomy.
#[derive(Debug)]
pub struct Entry {
    /// Words in braces stand for one word each.
    pub template: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// A concrete name that fits.
    pub example: &'static str,
    pub(super) kind: Kind,
    /// Another spelling of the template.
    also: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Photo,
    Illustration,
    Drawing,
    BackgroundRemove,
    Upscale(u32),
    TranscribeTimed,
    TranscribeText,
    Speech,
    AudioTranslate,
    Translate,
    /// In percent of the words that went in.
    Summarize {
        least: u64,
        most: u64,
    },
    RewriteFormal,
    RewriteCasual,
    Expand,
    CodeScript,
    CodeFunction,
    CodeReview,
    CodeTest,
    CodeTranslate,
    CodeExecute,
    Weather,
    WebSearch,
    Extract,
    Scrape,
    Stock,
    Crypto,
    Chart,
    Symbolic,
    Numeric,
    Statistics,
    EmbedText,
    EmbedImage,
    ClassifyImage,
    ClassifyText,
    Sentiment,
    Toxicity,
    Profile,
}

impl Entry {
    /// The first word of the name.
    pub fn family(&self) -> &'static str {
        self.template.split('.').next().unwrap_or(self.template)
    }

    pub fn versions(&self) -> &'static [Version] {
        VERSIONS
    }

    /// Of the example's name: of all entries only the weather's depends on what stands in braces.
    pub fn input_schema(&self, version: &str) -> Option<Value> {
        find(self.example)?.input_schema(version)
    }

    pub fn output_schema(&self, version: &str) -> Option<Value> {
        find(self.example)?.output_schema(version)
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.template), self.also].into_iter().flatten()
    }
}

const fn entry(
    kind: Kind,
    template: &'static str,
    example: &'static str,
    title: &'static str,
    description: &'static str,
) -> Entry {
    Entry { template, title, description, example, kind, also: None }
}

/// A name without words in braces is its own example.
const fn plain(
    kind: Kind,
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> Entry {
    entry(kind, name, name, title, description)
}

/// Every entry, family by family.
pub fn taxonomy() -> &'static [Entry] {
    TAXONOMY
}

const TAXONOMY: &[Entry] = &[
    plain(
        Kind::Photo,
        "image.generate.photorealistic.png",
        "Photorealistic picture",
        "A PNG of the size that was asked for, made from a prompt.",
    ),
    plain(
        Kind::Illustration,
        "image.generate.illustration.png",
        "Illustration",
        "A drawn PNG of the size that was asked for, made from a prompt.",
    ),
    plain(
        Kind::Drawing,
        "image.generate.illustration.svg",
        "Vector illustration",
        "An SVG with at least one path, made from a prompt.",
    ),
    plain(
        Kind::BackgroundRemove,
        "image.edit.background-remove",
        "Background removal",
        "The picture as a PNG with alpha, and a mask of black and white.",
    ),
    plain(
        Kind::Upscale(2),
        "image.upscale.2x",
        "Enlargement, twice",
        "The same picture, twice as wide and twice as high.",
    ),
    plain(
        Kind::Upscale(4),
        "image.upscale.4x",
        "Enlargement, four times",
        "The same picture, four times as wide and four times as high.",
    ),
    Entry {
        also: Some("audio.transcribe.{lang}.json-with-timestamps"),
        ..plain(
            Kind::TranscribeTimed,
            "audio.transcribe.json-with-timestamps",
            "Transcript with times",
            "What is said in a recording, in segments with their times.",
        )
    },
    entry(
        Kind::TranscribeText,
        "audio.transcribe.{lang}.text",
        "audio.transcribe.it.text",
        "Transcript",
        "What is said in a recording, as one text.",
    ),
    entry(
        Kind::Speech,
        "audio.generate-speech.{voice}.mp3",
        "audio.generate-speech.alloy.mp3",
        "Speech",
        "A text read aloud by a voice, as MP3.",
    ),
    entry(
        Kind::AudioTranslate,
        "audio.translate.{src}.{tgt}",
        "audio.translate.it.en",
        "Translation of a recording",
        "What is said in a recording, as a text in another language.",
    ),
    entry(
        Kind::Translate,
        "text.translate.{src}.{tgt}.{level}",
        "text.translate.en.it.business",
        "Translation",
        "A text in another language: literal, fluent, business, casual or technical.",
    ),
    plain(
        Kind::Summarize { least: 0, most: 20 },
        "text.summarize.short",
        "Short summary",
        "At most a fifth of the words.",
    ),
    plain(
        Kind::Summarize { least: 10, most: 30 },
        "text.summarize.medium",
        "Summary",
        "Ten to thirty per cent of the words.",
    ),
    plain(
        Kind::Summarize { least: 25, most: 60 },
        "text.summarize.long",
        "Long summary",
        "A quarter to sixty per cent of the words.",
    ),
    plain(
        Kind::RewriteFormal,
        "text.rewrite.formal",
        "Formal wording",
        "The same in formal words, half to twice as long.",
    ),
    plain(
        Kind::RewriteCasual,
        "text.rewrite.casual",
        "Casual wording",
        "The same in casual words.",
    ),
    entry(
        Kind::Expand,
        "text.expand.{factor}",
        "text.expand.2x",
        "Expansion",
        "The same in more words, by the factor in the name.",
    ),
    entry(
        Kind::CodeScript,
        "code.generate.{language}.script",
        "code.generate.python.script",
        "Script",
        "A program for a task.",
    ),
    entry(
        Kind::CodeFunction,
        "code.generate.{language}.function",
        "code.generate.python.function",
        "Function",
        "A function with a given signature and behaviour.",
    ),
    entry(
        Kind::CodeReview,
        "code.review.{language}",
        "code.review.python",
        "Code review",
        "Findings with line and severity.",
    ),
    entry(
        Kind::CodeTest,
        "code.test.{language}",
        "code.test.python",
        "Tests",
        "Tests for given code.",
    ),
    entry(
        Kind::CodeTranslate,
        "code.translate.{src}.{tgt}",
        "code.translate.python.javascript",
        "Translation of code",
        "The same program in another language.",
    ),
    plain(
        Kind::CodeExecute,
        "code.execute.sandboxed",
        "Execution in a sandbox",
        "Runs code without files and network, up to 30 seconds.",
    ),
    entry(
        Kind::Weather,
        "data.lookup.weather.{format}",
        "data.lookup.weather.json",
        "Weather",
        "Weather of a place, as GeoJSON, JSON or a short text.",
    ),
    plain(
        Kind::WebSearch,
        "data.lookup.web-search",
        "Web search",
        "Pages for a query, with title and snippet.",
    ),
    plain(
        Kind::Extract,
        "data.extract.from-url",
        "Extraction from a page",
        "The fields that were asked for, from one page.",
    ),
    plain(
        Kind::Scrape,
        "data.scrape.json",
        "Scrape",
        "What is on a page, as JSON of the shape that was asked for.",
    ),
    plain(
        Kind::Stock,
        "data.lookup.stock-price",
        "Stock price",
        "The price of a stock with currency and time.",
    ),
    plain(
        Kind::Crypto,
        "data.lookup.crypto-price",
        "Crypto price",
        "The price of a coin in another currency.",
    ),
    plain(
        Kind::Chart,
        "chart.generate.from-data",
        "Chart",
        "A bar, line or pie chart of given points, as a picture.",
    ),
    plain(
        Kind::Symbolic,
        "compute.math.symbolic",
        "Symbolic mathematics",
        "Simplifies, expands, differentiates, integrates or solves an expression.",
    ),
    plain(
        Kind::Numeric,
        "compute.math.numeric",
        "Numeric mathematics",
        "The value of an expression.",
    ),
    entry(
        Kind::Statistics,
        "compute.statistics.{op}",
        "compute.statistics.mean",
        "Statistics",
        "Mean, median, standard deviation, variance or 95th percentile of numbers.",
    ),
    entry(
        Kind::EmbedText,
        "embed.text.{model}",
        "embed.text.text-embedding-3-small",
        "Embedding of a text",
        "A text as a vector.",
    ),
    entry(
        Kind::EmbedImage,
        "embed.image.{model}",
        "embed.image.clip-vit-l-14",
        "Embedding of a picture",
        "A picture as a vector.",
    ),
    entry(
        Kind::ClassifyImage,
        "classify.image.{taxonomy}",
        "classify.image.coco-categories",
        "Classification of a picture",
        "Labels of a taxonomy with their confidence.",
    ),
    entry(
        Kind::ClassifyText,
        "classify.text.{taxonomy}",
        "classify.text.topics",
        "Classification of a text",
        "Labels of a taxonomy with their confidence.",
    ),
    plain(
        Kind::Sentiment,
        "classify.text.sentiment",
        "Sentiment",
        "Positive, negative or neutral.",
    ),
    plain(Kind::Toxicity, "classify.text.toxicity", "Toxicity", "Whether a text is toxic."),
    plain(
        Kind::Profile,
        "research.linkedin.profile.enrich",
        "Profile research",
        "A public profile with its source.",
    ),
];
