// All calls of Azure's preview client for Node.js: node preview.mjs ENDPOINT KEY
// Prints one line of JSON per call: the status and the body.
import module from "@azure-rest/ai-personalizer";

const [endpoint, key] = process.argv.slice(2);
const client = module.default(endpoint, { key }, { allowInsecureConnection: true });
const show = ({ status, body }) => console.log(JSON.stringify({ status, body }));
const actions = ["a", "b", "c"].map((id) => ({ id, features: [{ name: id }] }));
const slots = [
  { id: "top", baselineAction: "a", features: [{ large: true }] },
  { id: "side", baselineAction: "b", excludedActions: ["c"] },
];

show(await client.path("/rank").post({ body: { actions, eventId: "p/1" } }));
show(await client.path("/events/{eventId}/activate", "p/1").post());
show(await client.path("/events/{eventId}/reward", "p/1").post({ body: { value: 1 } }));
const body = { actions, slots, eventId: "m/1", deferActivation: true };
show(await client.path("/multislot/rank").post({ body }));
show(await client.path("/multislot/events/{eventId}/activate", "m/1").post());
const reward = [{ slotId: "top", value: 1 }, { slotId: "side", value: 0 }];
show(await client.path("/multislot/events/{eventId}/reward", "m/1").post({ body: { reward } }));
const configuration = await client.path("/configurations/service").get();
show(configuration);
const changed = { ...configuration.body, rewardWaitTime: "PT20M" };
show(await client.path("/configurations/service").put({ body: changed }));
show(await client.path("/configurations/policy").get());
show(await client.path("/model/properties").get());
show(await client.path("/rank").post({ body: { actions: [] } }));
