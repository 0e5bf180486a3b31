// Ask the TypeScript SDK which skills it refuses: `node ask_typescript.mjs DIRECTORY NODE_MODULES` prints
// {skill: null or the reason} as JSON. Every directory right below DIRECTORY is one tree, loaded alone by `loadSkills`.

import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const [root, modules] = process.argv.slice(2);
// The packages live outside of the tests, so they are looked up from where they were installed.
const { loadSkills } = createRequire(path.join(path.resolve(modules), 'from-here.js'))(
  '@modelcontextprotocol/server/ext/skills/node'
);

function* skillsBelow(directory, relative) {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) yield* skillsBelow(path.join(directory, entry.name), `${relative}/${entry.name}`);
    else if (entry.name === 'SKILL.md') yield relative;
  }
}

async function ask(tree) {
  const answers = {};
  const warnings = [];
  let uris = new Set();
  let crash;
  try {
    const catalog = await loadSkills(path.join(root, tree), { onWarning: warning => warnings.push(warning) });
    uris = new Set(catalog.entries.map(entry => decodeURIComponent(entry.uri)));
  } catch (error) {
    crash = String(error);
  }
  for (const skill of skillsBelow(path.join(root, tree), tree)) {
    const inside = skill.slice(tree.length + 1);
    if (inside === '') continue;
    const said = warnings.filter(warning => warning.path.startsWith(inside)).map(warning => warning.message);
    answers[skill] = uris.has(`skill://${inside}/SKILL.md`) ? null : (crash ?? (said.join(' ') || 'not listed'));
  }
  return answers;
}

const answers = {};
for (const tree of readdirSync(root).sort()) Object.assign(answers, await ask(tree));
process.stdout.write(JSON.stringify(answers));
