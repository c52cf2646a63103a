// Messages of a trace against the published schema of the protocol.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import Ajv2020 from "ajv/dist/2020.js";

const path = createRequire(import.meta.url).resolve("@agentclientprotocol/sdk/schema/v1/schema.json");
const schema = JSON.parse(readFileSync(path, "utf8"));
const ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false });
ajv.addSchema(schema, "acp");

// The definition of each method's parameters and results.
const params = new Map();
const results = new Map();
for (const [name, definition] of Object.entries(schema.$defs)) {
  const method = definition["x-method"];
  if (!method) continue;
  (name.endsWith("Response") ? results : params).set(method, name);
}

const check = (name, value) => {
  const validate = ajv.getSchema(`acp#/$defs/${name}`);
  return validate(value) ? null : `${name}: ${ajv.errorsText(validate.errors)}`;
};

// Counts the messages, and lists what is wrong with them. Methods that the stable schema does not have are counted apart.
export const validate = (messages) => {
  const wrong = [];
  const unknown = new Set();
  const methods = new Map();
  let count = 0;
  for (const message of messages) {
    if (message?.jsonrpc !== "2.0") continue;
    count += 1;
    const key = JSON.stringify(message.id);
    if (message.method) {
      if (message.id !== undefined) methods.set(key, [...(methods.get(key) ?? []), message.method]);
      const name = params.get(message.method);
      if (!name) unknown.add(message.method);
      const why = name && check(name, message.params ?? {});
      if (why) wrong.push(`${why} in ${JSON.stringify(message).slice(0, 400)}`);
    } else if (message.result !== undefined) {
      // Both sides count their requests: one of those with this id must fit.
      const names = (methods.get(key) ?? []).map((method) => results.get(method)).filter(Boolean);
      const whys = names.map((name) => check(name, message.result));
      if (whys.length > 0 && whys.every(Boolean)) wrong.push(`${whys[0]} in ${JSON.stringify(message).slice(0, 400)}`);
    } else if (message.error !== undefined) {
      const why = check("Error", message.error);
      if (why) wrong.push(why);
    }
  }
  return { count, wrong, unknown: [...unknown] };
};
