"""The words of SQL that a query may use: functions, types and collations, by name.

What is not here is refused, so a function that a new version of the engine brings is refused until
somebody has looked at it. Left out are functions that tell of the process, its settings or its
files, that run SQL or functions given as text, that change state or wait, and those whose result
no answer can carry. Costly ones are in: the worker's limits bound them.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What the parser makes of operators and literals is spelled as a function too.
_OPERATORS: Final = _words(
    "+ - * / // % ** ^ & | ~ << >> || @ ^@ && @> <@ -> ->> ~~ !~~ ~~* !~~* ~~~ <-> <=> !__postfix"
)
_LITERALS: Final = _words(
    """row struct_pack list_value list_pack array_value map to_microseconds to_milliseconds to_seconds
    to_minutes to_hours to_days to_weeks to_months to_quarters to_years to_decades to_centuries
    to_millennia like_escape not_like_escape ilike_escape not_ilike_escape timezone overlay position"""
)
_NUMBERS: Final = _words(
    """abs acos acosh add asin asinh atan atan2 atanh bin bit_count cbrt ceil ceiling cos cosh cot
    degrees divide even exp factorial fdiv floor fmod gamma gcd greatest greatest_common_divisor
    isfinite isinf isnan lcm least least_common_multiple lgamma ln log log10 log2 mod multiply nextafter
    pi pow power radians random round round_even roundbankers sign signbit sin sinh sqrt subtract tan
    tanh trunc xor equi_width_bins hex to_hex"""
)
_TEXTS: Final = _words(
    """array_extract ascii bar base64 bit_length char_length character_length chr concat concat_ws
    contains damerau_levenshtein decode editdist3 encode ends_with format formatreadabledecimalsize
    formatreadablesize format_bytes from_base64 from_hex unhex hamming hash instr jaccard jaro_similarity
    jaro_winkler_similarity lcase left left_grapheme len length length_grapheme levenshtein lower lpad
    ltrim md5 mismatches nfc_normalize octet_length ord prefix printf regexp_escape regexp_extract
    regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array repeat
    replace reverse right right_grapheme rpad rtrim sha1 sha256 split split_part starts_with str_split
    str_split_regex string_split string_split_regex string_to_array strip_accents strlen strpos substr
    substring substring_grapheme suffix to_base to_base64 translate trim ucase unicode upper url_decode
    url_encode"""
)
_TIMES: Final = _words(
    """age ago century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc
    day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era
    get_current_time get_current_timestamp hour isodow isoyear julian last_day make_date make_time
    make_timestamp make_timestamptz microsecond millennium millisecond minute month monthname nanosecond
    now quarter second strftime strptime time_bucket to_timestamp today transaction_timestamp
    try_strptime week weekday weekofyear year yearweek timezone_hour timezone_minute"""
)
_NESTED: Final = _words(
    """apply array_append array_apply array_cat array_concat array_contains array_cosine_distance
    array_cosine_similarity array_cross_product array_distance array_distinct array_dot_product
    array_filter array_grade_up array_has array_has_all array_has_any array_indexof array_inner_product
    array_intersect array_length array_negative_dot_product array_negative_inner_product array_pop_back
    array_pop_front array_position array_prepend array_push_back array_push_front array_reduce
    array_resize array_reverse array_reverse_sort array_select array_slice array_sort array_to_json
    array_to_string array_transform array_unique array_where array_zip cardinality element_at filter
    flatten generate_series grade_up list_any_value list_append list_apply list_avg list_bool_and
    list_bool_or list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count
    list_distance list_distinct list_dot_product list_element list_extract list_filter list_first
    list_grade_up list_has list_has_all list_has_any list_indexof list_inner_product list_intersect
    list_last list_max list_median list_min list_mode list_negative_dot_product
    list_negative_inner_product list_position list_prepend list_product list_reduce list_resize
    list_reverse list_reverse_sort list_select list_slice list_sort list_stddev_pop list_stddev_samp
    list_string_agg list_sum list_transform list_unique list_var_pop list_var_samp list_where list_zip
    map_concat map_contains map_contains_entry map_contains_value map_entries map_extract
    map_extract_value map_from_entries map_keys map_values range reduce struct_concat struct_contains
    struct_extract struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_position
    struct_update struct_values unnest"""
)
_JSON: Final = _words(
    """from_json from_json_strict json json_array json_array_length json_contains json_deep_merge
    json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_insert
    json_keys json_merge_patch json_normalize json_object json_pretty json_quote json_remove json_replace
    json_set json_strip_nulls json_structure json_transform json_transform_strict json_type json_valid
    json_value row_to_json to_json"""
)
_OTHERS: Final = _words(
    """coalesce constant_or_null gen_random_uuid if nullif pg_typeof typeof uuid uuid_extract_timestamp
    uuid_extract_version uuidv4 uuidv7"""
)

AGGREGATES: Final = _words(
    """any_value approx_count_distinct approx_quantile approx_top_k arbitrary arg_max arg_max_null
    arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin array_agg avg bit_and bit_or
    bit_xor bool_and bool_or corr count count_if count_star countif covar_pop covar_samp entropy favg
    first fsum geometric_mean geomean group_concat histogram histogram_exact json_group_array
    json_group_object json_group_structure kahan_sum kurtosis kurtosis_pop last list listagg mad max
    max_by mean median min min_by mode product quantile quantile_cont quantile_disc regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem
    skewness stddev stddev_pop stddev_samp string_agg sum sum_no_overflow sumkahan var_pop var_samp
    variance wavg weighted_avg"""
)

WINDOWS: Final = AGGREGATES | _words(
    """cume_dist dense_rank fill first_value lag last_value lead nth_value ntile percent_rank rank
    rank_dense row_number"""
)

FUNCTIONS: Final = (
    _OPERATORS | _LITERALS | _NUMBERS | _TEXTS | _TIMES | _NESTED | _JSON | _OTHERS | AGGREGATES
)

TABLE_FUNCTIONS: Final = frozenset({"unnest", "range", "generate_series", "json_each"})

# UHUGEINT, BIGNUM, BIT, VARIANT, ENUM, UNION and times of nanoseconds are not here: an answer would
# carry another value, or none that a client reads.
TYPES: Final = frozenset(
    {
        *_words(
            """boolean bool logical tinyint int1 smallint int2 short integer int int4 signed bigint int8
            long hugeint int128 utinyint uint8 usmallint uint16 uinteger uint32 ubigint uint64 int16
            int32 int64 float real float4 double float8 decimal numeric dec varchar text string char
            bpchar nvarchar date time timestamp datetime timestamp_s timestamp_ms timestamp_us
            timestamptz interval blob bytea binary varbinary uuid json struct row list array map"""
        ),
        "timestamp with time zone",
        "timestamp without time zone",
        "time without time zone",
    }
)

COLLATIONS: Final = frozenset({"nocase", "noaccent", "nfc", "binary", "c", "posix"})
