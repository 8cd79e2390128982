import { execFile, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ADMIN_TOKEN, admin, adminPlace } from '../support/admin.ts';
import { readText } from '../support/docs.ts';
import { startWithOps } from '../support/ops.ts';
import { served } from '../support/served.ts';
import { ROOT } from '../support/service.ts';

const FOLDER = 'examples/terraform';
const EXAMPLE = JSON.parse(readText(`${FOLDER}/main.tf.json`));
const { create_method, update_method, destroy_method, id_attribute } = EXAMPLE.provider.restapi;
const { client, policy } = EXAMPLE.resource.restapi_object;
const { clients, defaults } = EXAMPLE.locals;

const service = served(async () => startWithOps(await adminPlace()));

const send = (method: string, path: string, body?: object) =>
  admin(service.opsUrl, method, path.replace(/^\/admin\/v1/, ''), body);

/** The requests that the provider makes of the example, as its documentation says. */
test.each(Object.entries(clients))('%s is made, read, changed and disabled', async (name, own) => {
  const data = { ...defaults, [id_attribute]: name, ...(own as object) };
  const created = await send(create_method, client.create_path.replace('{id}', name), data);
  expect(created.status).toBe(201);
  // All that an answer has more is ignored, so that no plan finds a change.
  const { [id_attribute]: _, ...settings } = created.body;
  const all = [...Object.keys(defaults), ...client.ignore_changes_to];
  expect(Object.keys(settings).toSorted()).toEqual(all.toSorted());
  expect(created.body).toMatchObject(data);
  const path = `${client.path}/${name}`;
  const read = await send('GET', path);
  expect([read.status, read.body]).toEqual([200, created.body]);
  const changed = await send(update_method, path, { ...data, rate_limit: 5 });
  expect([changed.status, changed.body.rate_limit]).toEqual([200, 5]);
  for (let i = 0; i < 2; i++) expect((await send(destroy_method, path)).status).toBe(200);
});

test('the policy is made, read and changed, and stays', async () => {
  const document = readText(`${FOLDER}/policy.yaml`);
  const confirmed = ['*'];
  const made = await send(create_method, policy.create_path, { document, confirmed });
  expect(made.status).toBe(200);
  const { body } = await send('GET', policy.read_path);
  expect(body).toMatchObject({ document });
  const all = ['document', 'confirmed', ...Object.keys(body)];
  expect([...new Set(all)].toSorted()).toEqual(
    ['document', ...policy.ignore_changes_to].toSorted(),
  );
  const other = { document: `${document}# other\n` };
  const changed = await send(update_method, policy.update_path, { ...other, confirmed });
  expect(changed.status).toBe(200);
  expect((await send(policy.destroy_method, policy.destroy_path)).body).toMatchObject(other);
});

/** The path of a program; '' without it. */
const onPath = (name: string) => spawnSync('which', [name], { encoding: 'utf8' }).stdout.trim();
const terraform = onPath('tofu') || onPath('terraform');
const provider = onPath('terraform-provider-restapi');

describe.skipIf(terraform === '' || provider === '')('Terraform or OpenTofu', () => {
  let folder: string;
  const run = (...args: string[]) =>
    new Promise<{ code: number; output: string }>((resolve) => {
      const options = { cwd: folder, env: environment() };
      execFile(terraform, [...args, '-no-color'], options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
      );
    });
  const environment = () => ({
    PATH: process.env.PATH,
    HOME: folder,
    CHECKPOINT_DISABLE: '1',
    TF_CLI_CONFIG_FILE: join(folder, 'cli.tfrc'),
    TF_VAR_url: service.opsUrl,
    TF_VAR_token: ADMIN_TOKEN,
  });
  const apply = async () => {
    const { code, output } = await run('apply', '-auto-approve');
    expect(code, output).toBe(0);
    return /Resources: .*/.exec(output)![0];
  };
  /** Whether a plan has a change. */
  const plan = async () => {
    const { code, output } = await run('plan', '-detailed-exitcode');
    expect([0, 2], output).toContain(code);
    return code === 2;
  };
  const billing = async () => (await send('GET', '/clients/billing')).body;

  beforeAll(() => {
    folder = join(service.place.folder, 'terraform');
    mkdirSync(folder);
    cpSync(join(ROOT, FOLDER), folder, { recursive: true });
    const override = `"Mastercard/restapi" = ${JSON.stringify(dirname(provider))}`;
    const text = `provider_installation {\n  dev_overrides {\n${override}\n}\n}\n`;
    writeFileSync(join(folder, 'cli.tfrc'), text);
  });

  test('makes the example, finds nothing to do after it, undoes drift, changes, destroys', async () => {
    expect(await apply()).toBe('Resources: 3 added, 0 changed, 0 destroyed.');
    expect(await plan()).toBe(false);
    expect(await billing()).toMatchObject({ rate_limit: 200, can_detokenize: false });
    await send('PATCH', '/clients/billing', { can_detokenize: true });
    expect(await plan()).toBe(true);
    expect(await apply()).toBe('Resources: 0 added, 1 changed, 0 destroyed.');
    expect(await billing()).toMatchObject({ can_detokenize: false });
    const file = join(folder, 'policy.yaml');
    const document = readFileSync(file, 'utf8').replace('masked', 'full');
    writeFileSync(file, document);
    expect(await apply()).toBe('Resources: 0 added, 1 changed, 0 destroyed.');
    expect((await send('GET', '/policy')).body).toMatchObject({ document });
    expect(await plan()).toBe(false);
    const { code, output } = await run('destroy', '-auto-approve');
    expect(code, output).toBe(0);
    expect(await billing()).toMatchObject({ disabled: true });
    expect(await apply()).toBe('Resources: 3 added, 0 changed, 0 destroyed.');
    expect(await billing()).toMatchObject({ disabled: false, can_detokenize: false });
  });
});
