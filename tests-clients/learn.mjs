// Visitors of a restaurant, served by Azure's client for Node.js: node learn.mjs ENDPOINT KEY ROUNDS
// Prints one line of JSON per visitor when the service has acknowledged the reward.
import { PersonalizerClient } from "@azure/cognitiveservices-personalizer";
import { CognitiveServicesCredentials } from "@azure/ms-rest-azure-js";

const [endpoint, key, rounds] = process.argv.slice(2);
const client = new PersonalizerClient(new CognitiveServicesCredentials(key), endpoint);
const wanted = { morning: "juice", noon: "salad", evening: "pasta" };
const actions = [
  { id: "pasta", features: [{ taste: "salty", spice: "medium" }, { nutrition: { calories: 5 } }] },
  { id: "juice", features: [{ taste: "sweet", spice: "none" }, { nutrition: { calories: 1 } }] },
  { id: "salad", features: [{ taste: "salty", spice: "low" }, { nutrition: { calories: 2 } }] },
];

for (let i = 0; i < Number(rounds); i++) {
  const time = Object.keys(wanted)[(i * 7 + (i >> 3)) % 3];
  const eventId = `node/${i} ü`;
  const answer = await client.rank({ actions, contextFeatures: [{ time }], eventId });
  const good = answer.rewardActionId === wanted[time];
  await client.events.reward(answer.eventId, { value: good ? 1 : 0 });
  console.log(JSON.stringify({ id: answer.eventId, good, ranking: answer.ranking }));
}
