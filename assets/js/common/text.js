/** Pure functions on spoken text: tags, length, sentence ends and expected duration. */

// --- Words that describe a style, which distinguish a style in square brackets from prose. The lists equal the lists in
// runtime/shared/style_words.py (tests/js/test_tags.py).

const STYLES = `
afraid amazed amused angrily angry annoyed anxious anxiously authoritative awe awkward bored breathless breathy bright
brightly brisk briskly calm calming calmly cautious cautiously cheerful cheerfully chuckle chuckles chuckling cold
coldly concerned confident confidently confused cry crying crisp curious curiously deadpan deep deeply delighted
desperate determined disappointed disgusted dramatic dramatically dreamy dry dryly embarrassed emotional energetic
enthusiastic enthusiastically excited excitedly excitement exhausted exasperated fast fearful firm firmly flat flirty
formal friendly frightened frustrated furious gasp gasps gentle gently giggle giggles giggling gleeful gloomy grave
gravely grim grumpy happily happy harsh harshly hesitant hesitantly high hoarse hopeful horrified hurried hushed hurt
impatient impatiently impressed indifferent intense ironic irritated jealous joyful joyfully joyous laugh laughing
laughs laughter loud loudly low loving lovingly matter-of-fact melancholic melancholy mischievous mischievously
mocking monotone mournful moved muffled mumbling murmuring mysterious mysteriously neutral nervous nervously nostalgic
outraged panicked panting passionate patient pensive playful playfully pleading pleased polite politely proud proudly
quick quickly quiet quietly reassuring relaxed relieved reluctant resigned reverent robotic sad sadly sadness sarcasm
sarcastic sarcastically scared scornful screaming serene serious seriously shaky sharp sharply shout shouting shouts
shocked shy sighing sighs sigh sincere singing sings singsong skeptical sleepy slow slowly smile smiling smug sob
sobbing soft softly solemn solemnly somber sombre soothing startled stern sternly stressed strict stuttering surprise
surprised suspicious sweet sweetly sympathetic tearful teasing tender tenderly tense terrified thoughtful thoughtfully
threatening timid tired tremble trembling triumphant unsure upbeat upset urgent urgently vulnerable warm warmly weary
weak whisper whispered whispering whispers wistful worried yawning yell yelling
fröhlich glücklich traurig wütend zornig ärgerlich aufgeregt begeistert flüsternd flüstert ruhig leise laut müde
ängstlich nervös ernst lachend lacht weinend weint seufzend seufzt schreiend sanft warm freundlich langsam schnell
überrascht erschöpft feierlich verärgert besorgt
joyeux joyeuse heureux heureuse triste fâché fâchée furieux furieuse excité excitée chuchoté chuchotant chuchote calme
doucement doux douce fort fatigué fatiguée inquiet inquiète nerveux nerveuse sérieux sérieuse riant rit pleurant
soupirant soupire criant crie lent lente lentement vite rapide rapidement surpris surprise chaleureux chaleureuse
alegre feliz enojado enojada enfadado enfadada furioso furiosa emocionado emocionada susurrando susurra tranquilo
tranquila suave suavemente cansado cansada asustado asustada nervioso nerviosa serio seria riendo ríe llorando
suspirando gritando lento lenta lentamente rápido rápidamente sorprendido sorprendida cálido cálida bajo
animado animada empolgado empolgada zangado zangada sussurrando sussurra calmo calma cansado cansada assustado
assustada nervoso nervosa sério séria rindo chorando devagar surpreso surpresa caloroso calorosa baixinho
felice allegro allegra arrabbiato arrabbiata furioso furiosa eccitato eccitata sussurrando sussurrato calmo calma
dolcemente stanco stanca spaventato spaventata nervoso nervosa serio seria ridendo piangendo sospirando gridando
piano lentamente veloce velocemente sorpreso sorpresa caloroso calorosa
весело радостно грустно печально сердито злобно взволнованно шёпотом шепотом спокойно тихо громко устало испуганно
нервно серьёзно серьезно смеясь смеётся плача вздыхая вздыхает крича мягко тепло медленно быстро удивлённо удивленно
весёлый радостный грустный злой шёпот
기쁘게 기쁨 행복하게 행복 슬프게 슬픔 화나서 화난 분노 흥분해서 흥분한 속삭이며 속삭임 속삭이듯 차분하게 조용히 크게
피곤하게 무서워하며 진지하게 웃으며 웃음 울며 울먹이며 한숨 부드럽게 따뜻하게 천천히 빠르게 놀라서 놀란
`;
const QUALIFIERS = `
a about absolutely almost an and as barely bit but completely delivery emotion emotionally extremely feeling full
fully half hint in kind little low manner more mood much nearly of on pace pitch quite rather really slight slightly
so somewhat sound sounding sounds speak speaking speaks speech spoken still style talking then to tone too touch truly
under utterly verge very voice volume whole with
aber etwas fast kaum leicht mehr mit sehr stimme und ganz zu
avec assez d de et la le les mais peu plus presque ton très trop un une voix
casi con de más muy pero poco tono un una voz y
com mais muito quase tom um uma
con e molto più poco quasi tono troppo voce
и но очень почти с голосом чуть
매우 아주 조금 목소리로 거의
`;
// In Chinese and Japanese, which have no spaces, each part between commas is one of these words, with optional
// particles.
const WIDE_STYLES = `
开心 高兴 快乐 愉快 欢快 兴奋 激动 悲伤 伤心 难过 忧伤 忧郁 沮丧 生气 愤怒 恼怒 害怕 恐惧 惊恐 紧张 焦虑 担心
惊讶 吃惊 震惊 平静 冷静 镇定 温柔 温暖 柔和 轻柔 亲切 友好 严肃 庄重 庄严 认真 正式 疲惫 疲倦 累 累了 困倦
慵懒 无聊 失望 绝望 骄傲 自豪 害羞 讽刺 嘲讽 调皮 俏皮 撒娇 神秘 深情 深沉 低沉 沙哑 哽咽 颤抖 低语 低声 小声
轻声 悄声 大声 高声 耳语 悄悄话 喊 大喊 喊叫 尖叫 哭 哭泣 哭腔 笑 大笑 微笑 轻笑 苦笑 冷笑 笑着 哭着 叹气 叹息
喘息 慢 慢速 缓慢 慢慢 快 快速 急促 急切 平淡 冷淡 冷漠 坚定 自信 犹豫 感动 怀念 活泼 热情 無奈 无奈 開心 高興
興奮 激動 悲傷 傷心 難過 憂傷 生氣 憤怒 害怕 緊張 驚訝 平靜 溫柔 溫暖 嚴肅 疲憊 低聲 小聲 輕聲 大聲 耳語 嘆氣
嘆息 緩慢 嬉しい 嬉しそう 楽しい 楽しそう 喜び 悲しい 悲しそう 悲しみ 怒り 怒って 怒った 興奮 興奮して 囁き
囁く 囁いて ささやき ささやく ささやいて ささやくよう 静か 落ち着いて 落ち着いた 優しい 優しく 大声 小声 疲れた
疲れて 怖い 怖がって 緊張して 真剣 笑い 笑って 笑いながら 泣き 泣いて 泣きながら 泣きそう ため息 ゆっくり 速く
早口 驚き 驚いて 驚いた 明るく 暗く 低く
`;
const WIDE_BEFORE = '很|非常|十分|特别|特別|有点|有點|有些|稍微|略带|略帶|带着|帶著|用|更|极其|極其|とても|少し|すごく';
const WIDE_AFTER = '的?(?:语气|語氣|声音|聲音|口吻|语调|語調)?(?:说|說)?|地(?:说|說)?|一点|一點|一些|に|な声で|で|と|そうに';

/** @param {string} list */
const wordsOf = (list) => list.trim().split(/\s+/u);

const STYLE_WORDS = new Set(wordsOf(STYLES));
const QUALIFIER_WORDS = new Set(wordsOf(QUALIFIERS));
const WIDE = new RegExp(`^(?:${WIDE_BEFORE})?(?:${wordsOf(WIDE_STYLES).join('|')})(?:${WIDE_AFTER})?$`, 'u');
const IS_WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;

/** True if the whole text describes a style. @param {string} text */
export function namesStyle(text) {
  const parts = text.toLowerCase().replaceAll('’', "'").match(/[^\s,;/，、；。.!！]+/gu) ?? [];
  const isStyle = (/** @type {string} */ part) => (IS_WIDE.test(part) ? WIDE.test(part) : STYLE_WORDS.has(part));
  return parts.some(isStyle) && parts.every((part) => isStyle(part) || QUALIFIER_WORDS.has(part));
}

// --- Tags in a text: `[excited]` is a style for the following text. `[pause:500ms]` and `<break time="1s"/>` are silence.
// The runtime applies the tags (runtime/shared/inline_tags.py). The page finds them and does not count them as words.

const TAG = /\[(?=[^[\]\n]*\p{L})[^[\]\n]{1,500}\]|<break(?=[\s/>])[^<>\n]{0,300}>/giu;
const TAG_AND_SPACE = new RegExp(`(^|\\s)?(${TAG.source})[ \\t]*`, TAG.flags);
const PAUSE = /^(?:<break\b.*|\[\s*(?:pause|break)(?:\s*[\s:=]\s*\d{1,6}(?:[.,]\d{1,6})?\s*(?:ms|milliseconds?|s|secs?|seconds?)?)?\s*\])$/iu;
const STYLE = /^\[\s*(?:neutral\s*\]|(?:style|风格|語氣|语气)\s*[:：=])/iu;

/** @param {string} text */
export function hasTags(text) {
  return tagsOf(text).length > 0;
}

/**
 * Return the fields of session.config for a text, including `tags` if the text has tags.
 *
 * @param {import('../player/take.js').Config} config @param {string} text @returns {import('../player/take.js').Config}
 */
export function configFor({ tags: _, ...config }, text) {
  return hasTags(text) ? { ...config, tags: true } : config;
}

/** Return a text without its tags. @param {string} text */
export function untagged(text) {
  return text.replace(TAG_AND_SPACE, (found, before, tag) => (isTag(tag) ? (before ?? '') : found));
}

/** Return the tags of a text as matches. @param {string} text */
export function tagsOf(text) {
  return [...text.matchAll(TAG)].filter(([tag]) => isTag(tag));
}

/** True if a text in brackets is a tag and not prose. @param {string} bracket */
export function isTag(bracket) {
  return PAUSE.test(bracket) || STYLE.test(bracket) || namesStyle(bracket.slice(1, -1));
}

/** Return the last style tag of a text, or ''. @param {string} text */
export function lastStyle(text) {
  return tagsOf(text).map(([tag]) => tag).findLast((tag) => !PAUSE.test(tag)) ?? '';
}

// --- Text that is sent, and its length, as the runtime checks them.

/** Return a text without surrounding white space, as in engine/text/rules.py. @param {string} text */
export function sentText(text) {
  return text.trim();
}

/** Return the length of a text in characters, as the runtime counts them. @param {string} text */
export function sentLength(text) {
  return [...sentText(text)].length;
}

// --- Sentence ends, which are those of the browser, except after abbreviations (sentence_ends.py).

// Words before a name or a number whose full stop does not end a sentence.
const TITLE =
  /^(?:mr|mrs|ms|mx|messrs|dr|prof|st|mt|rev|hon|gen|col|capt|lt|sgt|gov|sen|rep|pres|fr|hr|dott|ing|sig|sra|srta|vs|cf|ca|bzw|vgl|ggf|evtl|approx|ул|им|проф|рис|стр|гр|тов)$/u;
const NUMBERED = /^(?:no|nos|nr|nro|núm|num|figs?|art|vol|ch|sec|eq|ed|pp|av|jan|feb|mar|apr|aug|sept?|oct|nov|dec)$/u;
const LAST_WORD = /(?<!\S)["'“„‚‘«‹»›([{¿¡*_`]*(\S{0,32})\.[^\S\n]*\n?$/u;

/** Return the sentences of a text, each with its trailing white space. @param {string} text @returns {string[]} */
export function sentencesIn(text) {
  const sentences = [];
  let from = 0;
  let before = '';
  for (const { segment, index } of new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(text)) {
    if (before && !endsShort(before, segment)) {
      sentences.push(text.slice(from, index));
      from = index;
    }
    before = segment;
  }
  return text ? [...sentences, text.slice(from)] : [];
}

/** True if a text ends with the full stop of an abbreviation, an initial or an ordinal. @param {string} text @param {string} following */
export function endsShort(text, following) {
  const word = LAST_WORD.exec(text)?.[1];
  if (!word) return false;
  const last = (word.split(/[.-]/u).at(-1) ?? '').toLowerCase();
  const isInitial = [...last].length === 1 && last !== last.toUpperCase();
  return isInitial || /^\p{Nd}{1,2}$/u.test(word) || TITLE.test(last) || (NUMBERED.test(last) && /^\P{L}*?\p{Nd}/u.test(following));
}

// --- Duration of a text by its script. A test compares the result with speech_rate.py.

const FRAME_S = 0.08;
const LETTER_FRAMES = 0.85;
const SYLLABLE_FRAMES = 2.8;
const DIGIT_FRAMES = 4;
const DIGIT = /\p{Nd}/u;
const SYLLABLE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\p{Script=Yi}\p{Script=Ethiopic}]/u;
const SYLLABLES = new RegExp(SYLLABLE, 'gu');

// Minimum fraction of the expected duration. Takes of up to a second are not checked.
const TOO_SHORT = 0.3;
const JUDGED_S = 1;

/** Return the expected duration of a text in seconds. @param {string} text */
export function expectedSeconds(text) {
  let frames = 0;
  for (const character of text) {
    if (DIGIT.test(character)) frames += DIGIT_FRAMES;
    else frames += SYLLABLE.test(character) ? SYLLABLE_FRAMES : LETTER_FRAMES;
  }
  return frames * FRAME_S;
}

/**
 * True if most of a text is in scripts with at least one syllable per character.
 *
 * The pace of such texts is learned separately.
 *
 * @param {string} text
 */
export function isSyllabic(text) {
  const syllables = text.match(SYLLABLES)?.length ?? 0;
  return syllables * SYLLABLE_FRAMES > (text.length - syllables) * LETTER_FRAMES;
}

/** True if audio of this duration is too short for the whole text. @param {string} text @param {number} seconds */
export function isTooShort(text, seconds) {
  const expected = expectedSeconds(text.trim());
  return expected > JUDGED_S && seconds < TOO_SHORT * expected;
}
