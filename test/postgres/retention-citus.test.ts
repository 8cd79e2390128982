import { describe } from 'vitest';
import { citus_is_installed } from '../support/citus.ts';
import { testRetention } from '../support/retention-cases.ts';

describe.skipIf(!citus_is_installed)('records that end, on citus', () => testRetention('citus'));
