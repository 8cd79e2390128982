import { describe } from 'vitest';
import { citusIsInstalled } from '../support/citus.ts';
import { testRetention } from '../support/retention-cases.ts';

describe.skipIf(!citusIsInstalled)('records that end, on citus', () => testRetention('citus'));
