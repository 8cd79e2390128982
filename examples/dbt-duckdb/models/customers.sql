-- Before dbt reads the table, its new rows get tokens.
{{ config(
    pre_hook="update raw_customers set email = standin_tokenize(email) where right(email, 4) <> '_tok'"
) }}
select id, email from raw_customers
