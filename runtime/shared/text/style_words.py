"""Words for ways of speaking, by which a style tag such as `[excited]` is recognized.

The studio sends the same words to the web page (`for_page`), where assets/js/common/text.js uses them.
"""

from __future__ import annotations

import regex

# Words of styles. Text in brackets is a style if all its words are in STYLES or QUALIFIERS and at least one word is in
# STYLES.
STYLES = """
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
"""
QUALIFIERS = """
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
"""
# Words of styles in Chinese and Japanese, which have no spaces. Each part of a style between commas must be one of
# these words, with or without a particle.
WIDE_STYLES = """
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
"""
WIDE_BEFORE = "很|非常|十分|特别|特別|有点|有點|有些|稍微|略带|略帶|带着|帶著|用|更|极其|極其|とても|少し|すごく"
WIDE_AFTER = "的?(?:语气|語氣|声音|聲音|口吻|语调|語調)?(?:说|說)?|地(?:说|說)?|一点|一點|一些|に|な声で|で|と|そうに"

_STYLES = frozenset(STYLES.split())
_KNOWN = _STYLES | frozenset(QUALIFIERS.split())
_WIDE = regex.compile(rf"(?:{WIDE_BEFORE})?(?:{'|'.join(WIDE_STYLES.split())})(?:{WIDE_AFTER})?")
_IS_WIDE = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}]")
_WORD = regex.compile(r"[^\s,;/，、；。.!！]+")


def for_page() -> dict[str, str]:
    """Return the style words and patterns by name, for the JavaScript code of the web page."""
    return {"styles": STYLES.strip(), "qualifiers": QUALIFIERS.strip(), "wide": _WIDE.pattern}


def is_style_description(text: str) -> bool:
    """True if the whole text describes a way of speaking."""
    parts = _WORD.findall(text.casefold().replace("’", "'"))
    has_style = False
    for part in parts:
        is_wide = _IS_WIDE.search(part) is not None
        if not (_WIDE.fullmatch(part) if is_wide else part in _KNOWN):
            return False
        has_style = has_style or is_wide or part in _STYLES
    return has_style
