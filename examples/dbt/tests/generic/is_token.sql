{% test is_token(model, column_name, suffix='tok') %}
select {{ column_name }} from {{ model }} where {{ column_name }} not like '%\_{{ suffix }}'
{% endtest %}
