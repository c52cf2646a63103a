# Marks of zk for bash 4.4 and newer: no DEBUG trap, and the hooks of the person stay.
if [[ $- == *i* && -z ${__zk_nonce-}@UNLESS@ ]] && (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404 )); then
  __zk_nonce='@NONCE@'
  __zk_number='' __zk_keys=0

  # Escapes the control characters and percent signs of $1 into __zk_text.
  __zk_escape() {
    __zk_text=${1//%/%25}
    if [[ $__zk_text == *[[:cntrl:]]* ]]; then
      local code hex char
      for code in {1..31} 127; do
        printf -v hex '%02X' "$code"
        printf -v char "\\x$hex"
        __zk_text=${__zk_text//"$char"/"%$hex"}
      done
    fi
  }

  # Runs in the subshell of PS0: the command is in the history by now, unless the person keeps it out.
  __zk_start() {
    local HISTTIMEFORMAT='' entry number
    entry=$(builtin history 1 2>/dev/null)
    entry=${entry#"${entry%%[![:blank:]]*}"}
    number=${entry%%[!0-9]*}
    entry=${entry#"$number"}
    entry=${entry#?}
    entry=${entry# }
    __zk_escape "$entry"
    if [[ -n $number && $number == "$__zk_number" ]]; then
      # Without `lithist`, the history joins the lines of a command that went on.
      local source=H
      builtin shopt -q lithist && source=C
      printf '\e]7177;%s;%s;%s\a' "$__zk_nonce" "$source" "$__zk_text"
    else
      printf '\e]7177;%s;U;%s\a' "$__zk_nonce" "$__zk_text"
    fi >/dev/tty 2>/dev/null
  }

  __zk_end() {
    local code=$? __zk_text
    __zk_escape "$PWD"
    printf '\e]7177;%s;D;%d;%s\a' "$__zk_nonce" "$code" "$__zk_text" >/dev/tty 2>/dev/null
    return "$code"
  }

  # @LOCAL: a shell on this machine has keys for zk, and tells when it waits for a line.
  __zk_ask=${BASH_SOURCE[0]%/*}/ask

  # Runs in the subshell of PS2.
  __zk_more() {
    printf '\e]7177;%s;P;\a' "$__zk_nonce" >/dev/tty 2>/dev/null
  }

  # Makes a line that goes on tell so; fails where it cannot.
  __zk_mark_more() {
    [[ ${PS2-} == *__zk_more* ]] && return 0
    local attributes=''
    [[ -v PS2 ]] && attributes=${PS2@a}
    [[ $attributes != *r* ]] && PS2='$(__zk_more)'"${PS2-> }"
  }

  __zk_ready() {
    local code=$? keys=$__zk_keys
    # A line that went on would look empty.
    __zk_mark_more && builtin shopt -q promptvars || keys=0
    # Number that the next command gets in the history, if it gets there.
    __zk_number=${HISTCMD-}
    printf '\e]7177;%s;R;%d\a' "$__zk_nonce" "$keys" >/dev/tty 2>/dev/null
    return "$code"
  }

  __zk_line() {
    printf '\e]7177;%s;L;%d\a' "$__zk_nonce" "${#READLINE_LINE}" >/dev/tty 2>/dev/null
  }

  # Tells the aliases and functions behind the words in zk's private file, one a line.
  __zk_define() {
    local __zk_text word found all=''
    while IFS= read -r word; do
      found=$(builtin alias -- "$word" 2>/dev/null) && all+=$found$'\n'
      found=$(builtin declare -f -- "$word" 2>/dev/null) && all+=$found$'\n'
    done 2>/dev/null <"$__zk_ask"
    __zk_escape "${all:0:16384}"
    printf '\e]7177;%s;F;%s\a' "$__zk_nonce" "$__zk_text" >/dev/tty 2>/dev/null
  }
  # @END

  __zk_install() {
    local map attributes
    # @LOCAL
    if [[ :$SHELLOPTS: == *:emacs:* || :$SHELLOPTS: == *:vi:* ]]; then
      for map in emacs vi-insert vi-command; do
        builtin bind -m "$map" '"\e[1007178u": redraw-current-line' 2>/dev/null
        builtin bind -m "$map" -x '"\e[1007177u": __zk_line' 2>/dev/null
        builtin bind -m "$map" -x '"\e[1007179u": __zk_define' 2>/dev/null
      done
      __zk_keys=1
    fi
    __zk_mark_more
    # @END
    attributes=''
    [[ -v PROMPT_COMMAND ]] && attributes=${PROMPT_COMMAND@a}
    if [[ $attributes == *r* ]]; then
      # Nobody can change the hooks: the prompt carries the marks then.
      PS1='\[$(__zk_end; @READY@)\]'"$PS1" 2>/dev/null
    elif (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501 )); then
      PROMPT_COMMAND=(__zk_end ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"} '@READY@')
    elif [[ -n ${PROMPT_COMMAND-} ]]; then
      PROMPT_COMMAND=$'__zk_end\n'"${PROMPT_COMMAND%;}"$'\n@READY@'
    else
      PROMPT_COMMAND=$'__zk_end\n@READY@'
    fi
    attributes=''
    [[ -v PS0 ]] && attributes=${PS0@a}
    if [[ $attributes != *r* ]] && shopt -q promptvars; then
      PS0=${PS0-}'$(__zk_start)'
    fi
  }
  __zk_install
  unset -f __zk_install
fi
