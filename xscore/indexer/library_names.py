"""Names that say nothing about a repository: built-ins, and what the objects of every program have.
Data alone.

A method called on an object of unknown type is linked if one entity has the name, but not by a name
of these, which any object of the language may mean. Where the type is known, it decides. Trade-off:
a class of the repository that has such a method is found only where its type is known.
"""

BUILTIN_NAMES = frozenset(
    """
    abs all any append apply assert bind bool bytes call catch clear concat copy create
    defineProperty dict encode decode endswith enumerate entries every expect extend filter find
    finally float forEach format freeze frozenset from get getattr hasattr has id includes indexOf
    index insert int isArray isinstance issubclass items iter join keys len list log lower lstrip
    map match max min next open pop print property push raises range read reduce remove replace repr
    require resolve reversed rstrip round search set setattr setdefault slice some sort sorted
    splice split startswith startsWith str strip sub sum super test then toBe toEqual toString trim
    tuple type update upper values vars write zip String Number Boolean Object Array Map Set Promise
    Error Date Symbol RegExp JSON Math Reflect ValueError TypeError KeyError RuntimeError
    AttributeError Exception NotImplementedError IndexError describe it
    """.split()
)
"""Names of built-ins and common container methods, which say nothing about this repository."""

USUAL = """
    add addAll address append as_mut as_ref as_slice as_str begin borrow build bytes c_str
    charAt chars clone close collect compareTo contains containsKey copy count data default
    deref dispose empty end equals err error expect first flush fmt front get_or get_ref
    getAttribute getClass getDeclaringClass getKey getMessage getName getParameters getType
    getValue hash hashCode into into_iter invoke is_empty isEmpty iter iter_mut last len length
    lines load lock name next ok parse poll push_back put read readLine remove reset run send
    size skip spawn start stop stream String submit substring take to_owned to_string to_vec
    toArray toList unlock unwrap unwrap_or value values wait write
"""
"""Methods of the usual libraries of languages in braces."""

PYTHON = """
    __abs__ __add__ __and__ __base__ __bool__ __bytes__ __call__ __ceil__ __class_getitem__
    __contains__ __copy__ __deepcopy__ __del__ __delattr__ __delitem__ __dir__ __divmod__
    __enter__ __eq__ __exit__ __float__ __floor__ __floordiv__ __format__ __ge__
    __getattribute__ __getformat__ __getitem__ __getnewargs__ __getstate__ __gt__ __hash__
    __iadd__ __iand__ __imul__ __index__ __init__ __init_subclass__ __instancecheck__ __int__
    __invert__ __ior__ __isub__ __iter__ __ixor__ __le__ __len__ __lshift__ __lt__ __mod__
    __mul__ __ne__ __neg__ __new__ __next__ __or__ __pos__ __pow__ __prepare__ __radd__ __rand__
    __rdivmod__ __reduce__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__
    __rmod__ __rmul__ __ror__ __round__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__
    __rxor__ __setattr__ __setitem__ __sizeof__ __str__ __sub__ __subclasscheck__ __subclasses__
    __subclasshook__ __truediv__ __trunc__ __xor__ add append as_integer_ratio bit_count
    bit_length capitalize casefold center clear close conjugate copy count decode difference
    difference_update discard encode endswith expandtabs extend fileno find flush format
    format_map from_bytes fromhex fromkeys get hex index insert intersection intersection_update
    is_integer isalnum isalpha isascii isatty isdecimal isdigit isdisjoint isidentifier islower
    isnumeric isprintable isspace issubset issuperset istitle isupper items join keys ljust
    lower lstrip maketrans mro partition pop popitem readable readline readlines remove
    removeprefix removesuffix replace reverse rfind rindex rjust rpartition rsplit rstrip seek
    setdefault sort split splitlines startswith strip swapcase symmetric_difference
    symmetric_difference_update tell title to_bytes translate truncate union update upper values
    writable writelines zfill
"""
"""Methods of `object`, `str`, `bytes`, `list`, `dict`, `set`, numbers, types and files."""

JAVASCRIPT = """
    add apply at bind call catch charAt charCodeAt clear codePointAt compile concat copyWithin
    delete endsWith entries every exec fill filter finally find findIndex findLast findLastIndex
    flat flatMap forEach get has hasOwnProperty includes indexOf isPrototypeOf isWellFormed join
    keys lastIndexOf localeCompare map match matchAll normalize padEnd padStart pop
    propertyIsEnumerable push reduce reduceRight repeat replace replaceAll reverse search set
    shift slice some sort splice split startsWith sub substr substring sup test then
    toExponential toFixed toLocaleLowerCase toLocaleString toLocaleUpperCase toLowerCase
    toPrecision toReversed toSorted toSpliced toString toUpperCase toWellFormed trim trimEnd
    trimLeft trimRight trimStart unshift valueOf values with
"""
"""Methods of objects, functions, arrays, strings, maps, sets, promises and numbers."""

RUBY = """
    ! != !~ % & * ** + +@ - -@ / < << <= <=> == === =~ > >= >> [] []= ^ __id__ __send__ abs abs2
    all? allbits? angle any? anybits? arg arity ascii_only? assoc at b backtrace
    backtrace_locations between? binding bit_length bsearch bsearch_index bytesize byteslice
    call capitalize capitalize! casecmp casecmp? cause ceil center chain chomp chomp! chop chop!
    chr chunk chunk_while clamp class clear codepoints coerce collect! collect_concat
    combination compact compact! compare_by_identity compare_by_identity? concat conj conjugate
    cover? crypt curry cycle deconstruct deconstruct_keys default= default_proc default_proc=
    define_singleton_method delete delete! delete_at delete_if delete_prefix delete_prefix!
    delete_suffix delete_suffix! denominator detect difference dig digits display div divmod
    downcase downcase! downto drop drop_while dump dup each each_byte each_char each_codepoint
    each_cons each_entry each_grapheme_cluster each_index each_key each_line each_pair
    each_slice each_value each_with_index each_with_object empty? encode encode! encoding
    end_with? entries enum_for eql? equal? even? except exception exclude_end? extend fdiv fetch
    fetch_values fill filter filter! filter_map find find_all find_index finite? flat_map
    flatten flatten! floor force_encoding freeze frozen? full_message gcd gcdlcm getbyte
    grapheme_clusters grep grep_v group_by gsub gsub! has_key? has_value? hex i id2name imag
    imaginary include? index infinite? inject insert inspect instance_eval instance_exec
    instance_of? instance_variable_defined? instance_variable_get instance_variable_set
    instance_variables integer? intern intersect? intersection invert is_a? itself join keep_if
    key key? keys kind_of? lambda? lazy lcm ljust lstrip lstrip! magnitude map map! match match?
    max max_by member? merge merge! message method methods min min_by minmax minmax_by modulo
    negative? next! nil? nobits? none? nonzero? numerator object_id oct odd? one? ord pack
    parameters partition permutation phase polar pop positive? pow pred prepend private_methods
    product protected_methods public_method public_methods public_send push quo rassoc
    rationalize real real? rect rectangular reduce rehash reject reject! remainder
    remove_instance_variable repeated_combination repeated_permutation replace respond_to?
    reverse reverse! reverse_each rindex rjust rotate rotate! round rpartition rstrip rstrip!
    ruby2_keywords sample scan scrub scrub! select select! set_backtrace setbyte shift shuffle
    shuffle! singleton_class singleton_method singleton_method_added singleton_methods slice
    slice! slice_after slice_before slice_when sort sort! sort_by sort_by! source_location split
    squeeze squeeze! start_with? step store strip strip! sub sub! succ succ! sum swapcase
    swapcase! taint tainted? take_while tally tap then times to_a to_ary to_c to_enum to_f to_h
    to_hash to_i to_int to_proc to_r to_s to_str to_sym tr tr! tr_s tr_s! transform_keys
    transform_keys! transform_values transform_values! transpose truncate trust undump
    unicode_normalize unicode_normalize! unicode_normalized? union uniq uniq! unpack unpack1
    unshift untaint untrust untrusted? upcase upcase! update upto valid_encoding? value?
    values_at yield yield_self zero? zip | ~
"""
"""Methods of `Object`, `Kernel`, `Hash`, `Array`, `String`, `Symbol`, `Integer`, `Proc`, `Range`
and `Exception`."""

JAVA = """
    addSuppressed allMatch anyMatch builder checkBoundsBeginEnd checkBoundsOffCount checkIndex
    checkOffset clear codePointAt codePointBefore codePointCount codePoints coder
    compareToIgnoreCase compute computeIfAbsent computeIfPresent concat containsAll
    containsValue contentEquals copyOf copyValueOf decodeASCII describeConstable distinct
    dropWhile endsWith entry entrySet equalsIgnoreCase fillInStackTrace filter finalize findAny
    findFirst flatMap flatMapToDouble flatMapToInt flatMapToLong forEach forEachOrdered
    forEachRemaining format formatted generate get getBytes getBytesNoRepl getCause getChars
    getLocalizedMessage getOrDefault getStackTrace getSuppressed hasNext ifPresent
    ifPresentOrElse indent indexOf initCause intern isBlank isPresent iterate iterator join
    keySet lastIndexOf limit listIterator map mapMulti mapMultiToDouble mapMultiToInt
    mapMultiToLong mapToDouble mapToInt mapToLong matches max merge min newStringNoRepl
    noneMatch notify notifyAll of ofEntries ofNullable offsetByCodePoints or orElse orElseGet
    orElseThrow ordinal parallelStream peek printStackTrace putAll putIfAbsent reduce
    regionMatches removeAll removeIf repeat replace replaceAll replaceFirst resolveConstantDesc
    retainAll set setCause setStackTrace sort sorted split spliterator startsWith strip
    stripIndent stripLeading stripTrailing subList subSequence takeWhile toCharArray toLowerCase
    toString toUpperCase transform translateEscapes trim valueOf valueOfCodePoint
"""
"""Methods of `Object`, `String`, `Throwable`, enums, collections, maps, optional values and
streams."""

KOTLIN = """
    also any apply associate associateBy associateWith chunked component1 component2 containsAll
    distinct drop dropLast filterIsInstance filterNot firstOrNull fold getOrDefault getOrElse
    getOrNull getOrPut groupBy ifEmpty indices isBlank isNotBlank isNotEmpty isNullOrEmpty
    joinToString lastOrNull let mapNotNull mapTo mapValues maxByOrNull minByOrNull minus
    mutableListOf none orEmpty partition plus removeAll single singleOrNull sortedBy sumOf
    takeIf takeUnless toMap toMutableList toSet use with withIndex
"""
"""Functions of Kotlin's own library on any object; those of Java are its own too."""

SCALA = """
    andThen asInstanceOf canEqual collectFirst compose diff distinct drop dropWhile exists fold
    foldLeft foldRight forall foreach getOrElse groupBy headOption init isDefined isInstanceOf
    iterator lastOption mkString nonEmpty orElse partition productArity recover sliding sortBy
    sortWith tail takeWhile toInt toMap toSeq toSet unapply withFilter zipWithIndex
"""
"""Methods of Scala's objects and collections; those of Java are its own too."""

CSHARP = """
    Add AddRange All Any Append AsEnumerable Average BeginInvoke Clear Clone Close CompareTo
    Concat Contains ContainsKey Copy CopyTo Count Dispose DisposeAsync Distinct ElementAt
    EndInvoke EndsWith Equals Exists Finalize Find First FirstOrDefault ForEach Format Get
    GetEnumerator GetHashCode GetType GroupBy IndexOf Insert Invoke Join Last LastOrDefault Max
    MemberwiseClone Min MoveNext OrderBy Peek Pop Push Read Remove RemoveAll RemoveAt Replace
    Reset Reverse Select SelectMany Single SingleOrDefault Skip Sort Split StartsWith Substring
    Sum Take ToArray ToDictionary ToList ToLower ToString ToUpper Trim TryAdd TryGetValue Where
    Write Zip
"""
"""Methods of `object`, strings, collections, streams and LINQ."""

RUST = """
    all and_then any as_bytes as_deref borrow_mut chain clone_from cloned cmp contains_key
    copied cycle deref_mut drain drop entry enumerate eq expect_err extend filter_map finish
    flat_map flatten fold for_each ge get_mut get_or_insert_with gt has_next index_mut insert
    is_err is_none is_ok is_some join le lt map_err map_or map_or_else max min ne next_back nth
    ok_or ok_or_else or_else or_insert or_insert_with partial_cmp partition peek peekable pop
    position product push push_str replace retain rev sort_by sort_by_key split_at splitn
    starts_with ends_with step_by sum swap take_while to_ascii_lowercase to_lowercase
    to_uppercase trim try_from try_into unwrap_or_default unwrap_or_else unzip windows zip
"""
"""Methods of traits and types of the standard library."""

GO = """
    As Close Error Format GoString Is Len Less MarshalBinary MarshalJSON MarshalText Read ReadAt
    ReadByte ReadFrom ReadRune Seek ServeHTTP Swap UnmarshalJSON UnmarshalText Unwrap Write
    WriteByte WriteString WriteTo
"""
"""Methods of interfaces of the standard library."""

SWIFT = """
    advanced allSatisfy compactMap description distance drop dropFirst dropLast encode
    enumerated firstIndex flatMap forEach hasPrefix hasSuffix isEqual lowercased makeIterator
    mutableCopy popLast prefix randomElement removeAll removeFirst removeLast shuffled split
    starts suffix uppercased
"""
"""Methods of strings, sequences and objects."""

CPP = """
    at back before_begin cbegin cend crbegin emplace_back emplace_front erase fill find_first_of
    find_last_of get_allocator insert lower_bound max_size pop_back pop_front push_front rbegin
    rend reserve resize rfind shrink_to_fit substr swap upper_bound
"""
"""Methods of containers and strings."""

PHP = """
    __call __clone __construct __destruct __get __invoke __isset __set __toString current
    getArrayCopy getCode getFile getIterator getLine getPrevious getTrace getTraceAsString
    jsonSerialize key offsetExists offsetGet offsetSet offsetUnset rewind serialize unserialize
    valid
"""
"""Methods of exceptions, iterators and every object."""
