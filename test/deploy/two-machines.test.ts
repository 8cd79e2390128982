import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { has } from '../support/deploy.ts';
import { readText } from '../support/docs.ts';
import { newFolder } from '../support/folder.ts';
import { ROOT } from '../support/program.ts';
import { until } from '../support/service.ts';

const PAGE = readText('docs/guides/two-machines.md');
const MACHINES = ['callers', 'one', 'two'] as const;
type Machine = (typeof MACHINES)[number];
const ADDRESSES = { one: '10.77.0.1', two: '10.77.0.2', callers: '10.77.0.3' };

interface Step {
  readonly machines: readonly Machine[];
  readonly commands: string;
}

/** The commands of the page in their order. A paragraph that begins with "On" names the machines. */
function stepsOf(page: string): Step[] {
  let machines: Machine[] = [];
  return [...page.matchAll(/^On [^\n]*|```sh\n([\s\S]*?)```/gm)].flatMap(([text, commands]) => {
    if (commands === undefined) {
      const named = MACHINES.filter((name) => text.includes(`**${name}**`));
      if (named.length > 0) machines = named;
      return [];
    }
    return [{ machines, commands }];
  });
}

/** Packages are there; the program is mounted; ssh and systemd are imitated. */
const shims = (two: number) => `set -eo pipefail
apt-get() { :; }
ssh() { shift; nsenter -t ${two} -m "$@"; }
scp() { cp -p "\${@:2:$#-2}" /proc/${two}/root/"\${!##two:}"; }
systemctl() {
  case "$*" in
    *haproxy) haproxy -D -f /etc/haproxy/haproxy.cfg; return ;;
    enable*standin) ;;
    *) return ;;
  esac
  local unit credentials=/run/credentials
  unit=$(cat /etc/systemd/system/standin.service /etc/systemd/system/standin.service.d/*)
  mkdir -p $credentials
  install -d -o nobody /var/lib/standin /var/log/standin
  sed -n 's/^LoadCredential=//p' <<<"$unit" | while IFS=: read -r name path; do
    install -o nobody -m 400 "$path" $credentials/$name
  done
  cd /var/lib/standin
  env -i PATH="$PATH" $(cat /etc/standin/standin.env) \\
    $(sed -n "s#%d#$credentials#g; s/^Environment=//p" <<<"$unit") \\
    setsid setpriv --reuid nobody --regid nogroup --clear-groups \\
    $(sed -n 's/^ExecStart=//p' <<<"$unit") >/var/log/standin/log 2>&1 </dev/null &
}
`;

const run = promisify(execFile);
const canRun =
  process.getuid?.() === 0 &&
  ['ip', 'nsenter', 'pg_createcluster', 'haproxy'].every((one) => has('which', one)) &&
  has('unshare', '--mount', '--net', '--uts', 'true');

/** Networks, host names and folders of three machines on one. */
describe.skipIf(!canRun)('the page on two machines', () => {
  const pids = new Map<Machine, number>();
  const folder = newFolder('two');
  let apiKey = '';
  beforeAll(async () => {
    for (const name of MACHINES) {
      const space = ['--mount', '--net', '--uts', 'sleep', 'infinity'];
      pids.set(name, spawn('unshare', space, { stdio: 'ignore' }).pid!);
      await until(() => networkOf(pids.get(name)!) !== networkOf(process.pid), 'its namespaces');
    }
    for (const name of MACHINES) await boot(name);
    writeFileSync(join(folder, 'shims'), shims(pids.get('two')!));
  });
  afterAll(() => {
    for (const name of MACHINES) stop(name);
  });

  async function boot(name: Machine): Promise<void> {
    const bridge =
      name === 'callers'
        ? 'ip link add eth0 type bridge'
        : `nsenter -t ${pids.get('callers')} -n sh -c 'ip link add to-${name} type veth peer name eth0 netns ${pids.get(name)} && ip link set to-${name} master eth0 up'`;
    await typedOn(
      name,
      `hostname ${name}
      mount -t tmpfs none /mnt
      for path in etc opt var; do
        mkdir -p /mnt/$path/{new,work}
        mount -t overlay -o lowerdir=/$path,upperdir=/mnt/$path/new,workdir=/mnt/$path/work overlay /$path
      done
      mount -t tmpfs none /run
      install -d -o postgres -g postgres /run/postgresql
      mkdir -p /opt/standin /etc/systemd/system /etc/standin
      mount --bind ${ROOT} /opt/standin
      ${bridge}
      ip address add ${ADDRESSES[name]}/24 dev eth0
      ip link set lo up
      ip link set eth0 up`,
    );
  }

  async function typedOn(machine: Machine, commands: string): Promise<string> {
    const spaces = ['-t', String(pids.get(machine)), '--mount', '--net', '--uts'];
    const shimmed = existsSync(join(folder, 'shims')) ? `. ${join(folder, 'shims')}\n` : 'set -e\n';
    const { stdout } = await run('nsenter', [...spaces, 'bash', '-c', `${shimmed}${commands}`], {
      cwd: '/',
      env: {
        PATH: `${dirname(process.execPath)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
        API_KEY: apiKey,
      },
    });
    return stdout;
  }

  /** Kills all processes of a machine at once, as when its power fails. */
  function stop(machine: Machine): void {
    const network = networkOf(pids.get(machine)!);
    if (network === undefined) return;
    for (const pid of readdirSync('/proc').map(Number))
      if (pid > 0 && networkOf(pid) === network) process.kill(pid, 'SIGKILL');
  }

  /** The data of the first 200 that the callers get through the balancer. */
  async function answered(path: string, data: object): Promise<Record<string, string>> {
    let found: Record<string, string> | undefined;
    await until(async () => {
      found = await typedOn(
        'callers',
        `curl -sf --cacert /etc/standin/ca.pem https://localhost:8443/api/v1/${path} -H "Authorization: Bearer $API_KEY" -H 'Content-Type: application/json' -d '${JSON.stringify({ data })}'`,
      ).then(
        (answer) => JSON.parse(answer).data,
        () => undefined,
      );
      return found !== undefined;
    }, `an answer of ${path}`);
    return found!;
  }

  test('its commands make a vault that keeps every acknowledged token when a machine dies', async () => {
    const steps = stepsOf(PAGE);
    expect(steps.length).toBeGreaterThan(11);
    const promote = steps.findIndex(({ commands }) => commands.includes('promote'));
    let first: string | undefined;
    for (const { machines, commands } of steps.slice(0, promote)) {
      if (commands.includes('npm ci')) continue;
      for (const machine of machines) {
        // What the page says in words.
        if (commands.includes('haproxy')) {
          await typedOn('one', `cp /etc/standin/ca.pem ${folder}`);
          await typedOn('callers', `cp ${folder}/ca.pem /etc/standin`);
          await typedOn('callers', "printf '10.77.0.1 one\\n10.77.0.2 two\\n' >>/etc/hosts");
        }
        if (commands.includes('curl')) await answered('tokenize', {});
        const output = await typedOn(machine, commands);
        apiKey ||= /stk_\w+/.exec(output)?.[0] ?? '';
        if (commands.includes('curl')) first = JSON.parse(output).data.name;
      }
    }
    expect(await answered('detokenize', { name: first })).toEqual({ name: 'Ann Lee' });
    const second = (await answered('tokenize', { name: 'Bob Ray' })).name;
    stop('one');
    await typedOn('two', steps[promote]!.commands);
    const values = await answered('detokenize', { first, second });
    expect(values).toEqual({ first: 'Ann Lee', second: 'Bob Ray' });
    await answered('tokenize', { name: 'Carla Diaz' });
  });
});

function networkOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return undefined;
  }
}
