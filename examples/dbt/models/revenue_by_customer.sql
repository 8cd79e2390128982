-- Equal values have equal tokens, so files that were tokenized apart join.
select customers.email, sum(orders.amount) as revenue
from {{ ref('customers') }} as customers
join {{ ref('orders') }} as orders using (email)
group by customers.email
