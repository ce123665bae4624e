//! EAPrompt as the authors' repository has it, Coldmist-Lu/ErrorAnalysis_Prompt at c74bf779: its messages,
//! with the worked examples of the user's copy. [`tribunal_judges::eaprompt`] lists what differs.

use serde_json::json;
use tribunal_core::{
    llm::{Chat, Reply, ResponseFormat},
    mqm::{ErrorSpan, Repeats, Severity},
    segment::Segment,
};
use tribunal_judges::{
    Error, Judge, Panel, Protocol, Provenance, Result, Role, Settings, Stage, Verdict, confidence,
    eaprompt::{
        COUNT, COUNT_STAGE, Counting, ExampleSet, IDENTIFY, Options, SHOTS, Texts, check_options, counted,
        examples::{self, Examples},
        list, weighed,
    },
    method::Calls,
    prompt::{File, Prompts},
    reading::strip,
    setup::{self, GivenOptions},
    shots::{self, Shot},
};

use self::authors::{Demo, read_authors};

mod authors;

const QUESTION: File = File { name: "eaprompt/code.j2", text: include_str!("eaprompt/question.j2") };
const ANSWER: File = File { name: "eaprompt/answer.code.j2", text: include_str!("eaprompt/answer.j2") };

/// Answer tokens of the errors and of the counts; a cut answer is used unchanged.
const BUDGET: usize = 256;

/// The pairs that the authors have an example of.
const AUTHORS: [(&str, &str); 3] = [("en", "de"), ("en", "ru"), ("zh", "en")];

/// EAPrompt as published.
struct Published {
    prompts: Prompts,
    counting: Counting,
    w_major: f64,
    examples: Examples<Example>,
    /// A pair of the authors is refused without its example.
    needs_example: bool,
    shows_reference: bool,
    max_tokens: Option<usize>,
}

/// One example, with its answer in the authors' words where it is theirs.
#[derive(Debug)]
struct Example {
    shot: Shot,
    words: Option<Words>,
}

/// The authors' words for the errors, and the counts that end the answer when one step does both.
#[derive(Debug)]
struct Words {
    errors: String,
    counts: String,
}

impl AsRef<Shot> for Example {
    fn as_ref(&self) -> &Shot {
        &self.shot
    }
}

/// The judge of preset `code`.
///
/// # Errors
/// Options that do not go together, and examples that cannot be used.
pub fn build(settings: &Settings, options: &GivenOptions) -> setup::Result<Judge> {
    let judge = Published::new(settings, &Options::read(options))?;
    let provenance = Provenance::of(&judge.prompts).with("shots", judge.examples.to_string());
    // The first answer is counted whether or not it can be read.
    let calls = Calls::exactly(if judge.counting == Counting::Prompted { 2 } else { 1 });
    Ok(Judge::new(provenance, judge).with_calls(calls))
}

impl Protocol for Published {
    fn judge(&self, panel: &Panel, group: &[Segment]) -> Vec<Result<Verdict>> {
        panel.each_segment(group, |panel, segment| self.judge_segment(panel, segment))
    }
}

impl Published {
    fn new(settings: &Settings, options: &Options) -> setup::Result<Self> {
        check_options(settings, options)?;
        if *options.is_detailed && *options.is_listed {
            let reason = "prose lists no errors to count; hint: use demo=itemized or count=asked";
            return Err(setup::Error::Conflict(reason.into()));
        }
        let counting = options.counting();
        let has_shots = match *options.shots {
            ExampleSet::Auto => true,
            shown => settings.has_shots(shown != ExampleSet::None)?,
        };
        let mut files = vec![QUESTION];
        files.extend(has_shots.then_some(ANSWER));
        files.extend((counting == Counting::Prompted).then_some(COUNT));
        files.extend(has_shots.then_some(SHOTS));
        let prompts = Prompts::load(&files, settings)?;
        let all = has_shots.then(|| load(&prompts, settings, options)).transpose()?;
        let judge = Self {
            examples: Examples::new(all, settings, options),
            prompts,
            counting,
            w_major: *options.w_major,
            needs_example: has_shots && *options.shots != ExampleSet::All,
            shows_reference: options.reference.is_shown(settings),
            max_tokens: settings.max_tokens,
        };
        judge.try_out().map_err(setup::Error::from_prompt)?;
        Ok(judge)
    }

    /// Renders every template once.
    fn try_out(&self) -> Result<()> {
        self.question(Texts::sample(self.shows_reference))?;
        self.examples.all().iter().try_for_each(|example| self.example_answer(example).map(drop))?;
        if self.counting == Counting::Prompted { self.count_chat("a").map(drop) } else { Ok(()) }
    }

    fn judge_segment(&self, panel: &Panel, segment: &Segment) -> Result<Verdict> {
        let reply = self.ask(panel, IDENTIFY, &self.chat(segment)?)?;
        let answer = &reply.text;
        let mut named = match self.counting {
            Counting::Listed => list::count(answer)?,
            // The listed errors only mark the text; the counts make the score.
            Counting::Prompted | Counting::Within => list::read(answer).unwrap_or_default(),
        };
        confidence::note(&reply, "span", &mut named);
        let errors: Vec<ErrorSpan> = match self.counting {
            Counting::Prompted => {
                let counts = self.ask(panel, COUNT_STAGE, &self.count_chat(answer)?)?.text;
                counted(&named, list::counts(&counts)?)
            }
            Counting::Within => counted(&named, list::last_counts(answer)?),
            Counting::Listed => named,
        };
        let errors = Repeats::Charged.settled(errors, &segment.source, &segment.hypothesis);
        Ok(weighed(errors, self.w_major))
    }

    fn ask(&self, panel: &Panel, stage: Stage, chat: &Chat) -> Result<Reply> {
        let question = panel.question(chat, &ResponseFormat::Text, self.max_tokens.unwrap_or(BUDGET));
        Ok(panel.ask(Role::Annotator, stage, &question)?)
    }

    /// The question of stage 1 about a segment, after its examples. The authors' reader of files strips the
    /// space around a text.
    fn chat(&self, segment: &Segment) -> Result<Chat> {
        let Texts { source, reference, target } = Texts::of(segment, self.shows_reference)?;
        let texts = Texts { source: strip(source), reference: reference.map(strip), target: strip(target) };
        let examples = self.examples.of(segment);
        let pair = (segment.src_lang.language(), segment.tgt_lang.language());
        if examples.is_empty() && self.needs_example && AUTHORS.contains(&pair) {
            let reason = format!(
                "the authors' example for {}-{} is not at hand in this variant; hint: give \
                 `EAPrompt/constants/context.py` as shots, from a copy of Coldmist-Lu/ErrorAnalysis_Prompt, or shots=0",
                pair.0, pair.1
            );
            return Err(Error::Failed(reason));
        }
        let mut chat = Chat::new();
        for example in examples {
            let texts = Texts::of_example(&example.shot, self.shows_reference);
            chat = chat.user(self.question(texts)?).assistant(self.example_answer(example)?);
        }
        Ok(chat.user(self.question(texts)?))
    }

    fn question(&self, texts: Texts) -> Result<String> {
        let mut query = json!(texts);
        query["counted"] = json!(self.counting == Counting::Within);
        self.prompts.render(QUESTION, query)
    }

    /// Stage 2, from a fresh prompt.
    fn count_chat(&self, errors: &str) -> Result<Chat> {
        Ok(Chat::new().user(self.prompts.render(COUNT, json!({ "errors": errors, "code": true }))?))
    }

    fn example_answer(&self, example: &Example) -> Result<String> {
        let (answer, counts) = if let Some(Words { errors, counts }) = &example.words {
            (errors.clone(), counts.clone())
        } else {
            let errors = &example.shot.errors;
            let n = |severity: Severity| errors.iter().filter(|e| e.severity == severity).count();
            let counts = format!("{}, {}", n(Severity::Major), n(Severity::Minor));
            (self.prompts.render(ANSWER, json!({ "errors": errors }))?, counts)
        };
        Ok(if self.counting == Counting::Within { format!("{answer}\n{counts}") } else { answer })
    }
}

/// The examples of the file in force: shots, or the authors' file. Prose has the authors' words only.
fn load(prompts: &Prompts, settings: &Settings, options: &Options) -> setup::Result<Vec<Example>> {
    let text = prompts.render(SHOTS, ()).map_err(setup::Error::from_prompt)?;
    if examples::is_authors(&text) {
        let demo = if *options.is_detailed { Demo::Detailed } else { Demo::Itemized };
        return read_authors(&text, demo, options.reference.is_shown(settings))
            .map_err(|reason| examples::unusable(SHOTS, settings, &reason));
    }
    let shots = shots::load(prompts, Some(SHOTS), settings)?;
    let shots = shots.into_iter().filter(|_| !*options.is_detailed);
    Ok(shots.map(|shot| Example { shot, words: None }).collect())
}
