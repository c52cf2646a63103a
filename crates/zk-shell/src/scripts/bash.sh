# Marks of zk for bash 4.4 and newer: no DEBUG trap, and the hooks of the person stay. The hooks run in subshells, which
# inherit no DEBUG and no ERR trap, and without trace: a person who debugs the shell sees nothing of zk.
if [[ $- == *i* && -z ${__zk_nonce-}@UNLESS@ ]] && (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404 )); then
  __zk_nonce='@NONCE@' __zk_keys=0 __zk_k=k

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

  # Runs in the subshell of PS0: the command is in the history by now, unless the person keeps it out. The number of its
  # entry tells.
  __zk_start() {
    local HISTTIMEFORMAT='' entry number source=H __zk_text
    entry=$(builtin history 1 2>/dev/null)
    entry=${entry#"${entry%%[![:blank:]]*}"}
    number=${entry%%[!0-9]*}
    entry=${entry#"$number"}
    entry=${entry#?}
    entry=${entry# }
    # Without `lithist`, the history joins the lines of a command that went on.
    builtin shopt -q lithist && source=C
    __zk_escape "$entry"
    printf '\e]7177;%s;B;%s;%s;%s\a' "$__zk_nonce" "$number" "$source" "$__zk_text" >/dev/tty 2>/dev/null
  }

  __zk_end() {
    local __zk_text
    __zk_escape "$PWD"
    printf '\e]7177;%s;D;%d;%s\a' "$__zk_nonce" "$__zk_code" "$__zk_text" >/dev/tty 2>/dev/null
  }

  # Tells that the shell waits for a line, whether it has keys for zk, and the number that the next command gets in the
  # history, if it gets there.
  __zk_tell() {
    local keys=$__zk_keys
    # A line that went on would look empty.
    [[ ${PS2-} == *__zk_more* ]] && builtin shopt -q promptvars || keys=0
    printf '\e]7177;%s;R;%d;%s\a' "$__zk_nonce" "$keys" "${HISTCMD-}" >/dev/tty 2>/dev/null
  }

  __zk_end_hook='({ __zk_code=$?; set +x; } 2>/dev/null; __zk_end)'
  __zk_ready_hook='({ set +x; } 2>/dev/null; __zk_tell)'

  # @LOCAL: a shell on this machine has keys for zk, and tells when it waits for a line.
  __zk_ask=${BASH_SOURCE[0]%/*}/ask
  __zk_ready_hook='({ __zk_code=$?; set +x; } 2>/dev/null; __zk_ready) && __zk_mend'
  # The hook that PS0 puts back where all hooks were replaced.
  __zk_back_hook="$__zk_ready_hook all"

  # Runs in the subshell of PS2.
  __zk_more() {
    printf '\e]7177;%s;P;\a' "$__zk_nonce" >/dev/tty 2>/dev/null
  }

  # Whether the prompt variable $1 has no mark $2, and can get one.
  __zk_lacks() {
    local attributes=''
    [[ ${!1-} == *"$2"* ]] && return 1
    [[ -v $1 ]] && builtin eval "attributes=\${$1@a}"
    [[ $attributes != *r* ]]
  }

  # Whether a hook is gone that can be put back.
  __zk_is_damaged() {
    [[ ${__zk_nonce@a} == *x* ]] && return 0
    __zk_lacks PS2 __zk_more && return 0
    builtin shopt -q promptvars && __zk_lacks PS0 __zk_start && return 0
    (( __zk_has_array )) || return 1
    [[ ${PROMPT_COMMAND[0]-} != *"$__zk_end_hook"* || ${PROMPT_COMMAND[7177]-} != "$__zk_ready_hook" ]]
  }

  # Succeeds if hooks are to be put back, which only the shell itself can do.
  __zk_ready() {
    if __zk_is_damaged; then
      (( __zk_has_array )) && [[ ${PROMPT_COMMAND[0]-} != *"$__zk_end_hook"* ]] && __zk_end
      return 0
    fi
    __zk_tell
    return 1
  }

  # Puts hooks back and keeps those of the person.
  __zk_mend() {
    { local -; set +x; } 2>/dev/null
    __zk_install
    __zk_tell
    return 0
  }

  __zk_line() {
    printf '\e]7177;%s;L;%d\a' "$__zk_nonce" "${#READLINE_LINE}" >/dev/tty 2>/dev/null
  }

  # Tells the line itself, so that zk can compare it with the command that was approved.
  __zk_show() {
    local __zk_text
    __zk_escape "$READLINE_LINE"
    printf '\e]7177;%s;V;%s\a' "$__zk_nonce" "$__zk_text" >/dev/tty 2>/dev/null
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
    # `set -a` would export what is set here.
    { local - attributes='' hook own=(); set +ax; } 2>/dev/null
    builtin declare -g +x __zk_nonce
    # @LOCAL
    __zk_lacks PS2 __zk_more && PS2='$({ set +x; } 2>/dev/null; __zk_more)'"${PS2-> }"
    # @END
    [[ -v PROMPT_COMMAND ]] && attributes=${PROMPT_COMMAND@a}
    __zk_has_array=0
    if [[ $attributes == *r* ]]; then
      # Nobody can change the hooks: the prompt carries the marks then.
      if [[ ${PS1-} != *__zk_end* ]]; then
        PS1='\[$({ __zk_code=$?; set +x; } 2>/dev/null; __zk_end; __zk_tell)\]'"${PS1-}" 2>/dev/null
      fi
    elif (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501 )); then
      __zk_has_array=1
      if [[ ${PROMPT_COMMAND[7177]-} != "$__zk_ready_hook" ]]; then
        for hook in ${PROMPT_COMMAND[@]+"${PROMPT_COMMAND[@]}"}; do
          case $hook in
            '' | "$__zk_end_hook" | "$__zk_ready_hook" | "${__zk_back_hook-}") ;;
            *) own+=("$hook") ;;
          esac
        done
        PROMPT_COMMAND=("$__zk_end_hook" ${own[@]+"${own[@]}"} [7177]="$__zk_ready_hook")
      elif [[ ${PROMPT_COMMAND[0]-} != *"$__zk_end_hook"* ]]; then
        # A plain assignment replaced the first hook, which was the person's without zk.
        PROMPT_COMMAND[1]=${PROMPT_COMMAND[0]-}
        PROMPT_COMMAND[0]=$__zk_end_hook
      fi
    elif [[ ${PROMPT_COMMAND-} != *__zk_end* ]]; then
      # The second part gives the person's hook the exit code, and the ERR trap none.
      PROMPT_COMMAND="${__zk_end_hook%)}; exit \$__zk_code) && (:)"$'\n'"${PROMPT_COMMAND:+${PROMPT_COMMAND%;}$'\n'}$__zk_ready_hook"
    fi
    if [[ ${PS0-} != *__zk_start* ]] && builtin shopt -q promptvars; then
      attributes=''
      [[ -v PS0 ]] && attributes=${PS0@a}
      if [[ $attributes != *r* ]]; then
        PS0=${PS0-}'$({ set +x; } 2>/dev/null; __zk_start)'
        # @LOCAL: an expansion can assign, and prints nothing here.
        (( __zk_has_array )) && PS0+='${__zk_k##[k"${PROMPT_COMMAND[7177]:=$__zk_back_hook}"]}'
        # @END
      fi
    fi
    return 0
  }

  # @LOCAL
  if [[ :$SHELLOPTS: == *:emacs:* || :$SHELLOPTS: == *:vi:* ]]; then
    for __zk_text in emacs vi-insert vi-command; do
      builtin bind -m "$__zk_text" '"\e[1007178u": redraw-current-line' 2>/dev/null
      builtin bind -m "$__zk_text" -x '"\e[1007177u": ({ set +x; } 2>/dev/null; __zk_line)' 2>/dev/null
      builtin bind -m "$__zk_text" -x '"\e[1007179u": ({ set +x; } 2>/dev/null; __zk_define)' 2>/dev/null
      builtin bind -m "$__zk_text" -x '"\e[1007180u": __zk_mend' 2>/dev/null
      builtin bind -m "$__zk_text" '"\e[1007181u": ""' 2>/dev/null
      builtin bind -m "$__zk_text" -x '"\e[1007182u": ({ set +x; } 2>/dev/null; __zk_show)' 2>/dev/null
    done
    __zk_keys=1
  fi
  # @END
  __zk_install
  unset __zk_text
  builtin declare +x __zk_nonce __zk_keys __zk_k __zk_end_hook __zk_ready_hook __zk_has_array
  builtin export -nf __zk_escape __zk_start __zk_end __zk_tell __zk_install
  # @LOCAL
  builtin declare +x __zk_ask __zk_back_hook
  builtin export -nf __zk_more __zk_lacks __zk_is_damaged __zk_ready __zk_mend __zk_line __zk_show __zk_define
  # @END
fi
