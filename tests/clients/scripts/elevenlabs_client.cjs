// Script with ElevenLabs' JavaScript client: HTTP with and without times, voices and models.
const { createHash } = require('node:crypto');
const { ElevenLabsClient } = require('@elevenlabs/elevenlabs-js');

const TEXT = 'One sentence at once.';
const SPOKEN = { text: TEXT, modelId: 'eleven_multilingual_v2', outputFormat: 'pcm_24000', languageCode: 'en', seed: 7 };

async function sound(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  const pcm = Buffer.concat(pieces);
  return { bytes: pcm.length, sha256: createHash('sha256').update(pcm).digest('hex') };
}

async function main(base) {
  const client = new ElevenLabsClient({ baseUrl: base, apiKey: 'none' });
  const speech = client.textToSpeech;
  const whole = await sound(await speech.convert('clara', SPOKEN));
  const streamed = await sound(await speech.stream('clara', SPOKEN));
  const timed = await speech.convertWithTimestamps('clara', SPOKEN);
  const pieces = [];
  const alignments = [];
  for await (const piece of await speech.streamWithTimestamps('clara', SPOKEN)) {
    pieces.push(Buffer.from(piece.audioBase64, 'base64'));
    alignments.push(...(piece.alignment?.characters ?? []));
  }
  let refused = null;
  try {
    await sound(await speech.convert('nobody', SPOKEN));
  } catch (error) {
    refused = [error.statusCode, error.body.detail.status];
  }
  const dictionary = await client.pronunciationDictionaries.createFromRules({
    name: 'In JavaScript',
    rules: [{ type: 'alias', stringToReplace: 'Nguyen', alias: 'Win' }],
  });
  const locator = { pronunciationDictionaryId: dictionary.id, versionId: dictionary.versionId };
  const asked = { ...SPOKEN, text: 'Ask Nguyen.', pronunciationDictionaryLocators: [locator] };
  const { voices } = await client.voices.getAll();
  const found = await client.voices.search({ pageSize: 1, search: 'clara' });
  console.log(JSON.stringify({
    whole,
    streamed,
    timed: await sound([Buffer.from(timed.audioBase64, 'base64')]),
    characters: timed.alignment.characters.join(''),
    pieces: await sound(pieces),
    aligned: alignments.join(''),
    refused,
    said: await sound(await speech.convert('clara', asked)),
    meant: await sound(await speech.convert('clara', { ...SPOKEN, text: 'Ask Win.' })),
    kept: (await client.pronunciationDictionaries.list()).pronunciationDictionaries.map((kept) => kept.name),
    voices: voices.map((voice) => voice.name),
    one: (await client.voices.get(voices[0].voiceId)).name,
    found: [found.voices.map((voice) => voice.name), found.hasMore],
    models: (await client.models.list()).map((model) => [model.modelId, model.canDoTextToSpeech]),
  }));
}

main(process.argv[2]);
