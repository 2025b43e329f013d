# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Completion of urds, rds-ping, rds-info and rds-stress for bash. Needs nothing but bash.

# Options of a command, and before the colon those of them that take an argument.
_urds_options()
{
	case $1 in
	listen) echo ": --help --version" ;;
	ping) echo "-c -i -I -Q : -c -i -I -Q --json --help --version" ;;
	cat) echo "-I -w : -l -I -w -v --help --version" ;;
	info) echo ": -a -c -k -n -r -s -t -v -I -T --peers --owners --json --help --version" ;;
	doctor) echo "-I -w --proc : -I -w --proc --json --help --version" ;;
	demo) echo "--fault --messages --time-limit : --fault --messages --time-limit --help --version" ;;
	stress)
		local valued="-s --send-addr -r --recv-addr -p --port -q --req-bytes -a --ack-bytes -t --tasks -d --depth
			-T --time -Q --tos -D --rdma-bytes -I -M --connect-retries --use-cong-monitor --show-outliers
			--rdma-use-once --rdma-use-get-mr --rdma-use-fence --rdma-cache-mrs --rdma-use-notify --rdma-alignment"
		echo "$valued : $valued -o -v --verify -V --trace -z --report-summary -c --report-cpu -R --rtprio
			--rdma-key-o-meter --show-params --show-perfdata --show-histogram --reset --async -h --help --version"
		;;
	esac
}

# Addresses that processes of this host own.
_urds_owned()
{
	"$1" info --owners 2>/dev/null | while read -r address _; do
		[ "$address" = Address ] || echo "$address"
	done
}

# The values of option $2 of command $1, for the word $3; $4: how urds is called.
_urds_value()
{
	case $1:$2 in
	demo:--fault) compgen -W "drop" -- "$3" ;;
	doctor:--proc) compgen -d -- "$3" ;;
	stress:--use-cong-monitor | stress:--rdma-use-* | stress:--rdma-cache-mrs) compgen -W "0 1" -- "$3" ;;
	stress:-I | stress:-M) ;;
	*:-I | stress:-r | stress:--recv-addr) compgen -W "$(_urds_owned "$4")" -- "$3" ;;
	stress:-s | stress:--send-addr) compgen -A hostname -- "$3" ;;
	esac
}

_urds()
{
	local name=${COMP_WORDS[0]##*/} urds=urds command first=1 word=${COMP_WORDS[COMP_CWORD]} previous options valued

	COMPREPLY=()
	case $name in
	rds-*) command=${name#rds-} ;;
	*)
		urds=${COMP_WORDS[0]}
		if [ "$COMP_CWORD" -eq 1 ]; then
			mapfile -t COMPREPLY < <(compgen -W "listen ping cat info stress doctor demo help version --help --version" -- "$word")
			return 0
		fi
		command=${COMP_WORDS[1]}
		first=2
		;;
	esac
	options=$(_urds_options "$command")
	[ -n "$options" ] || return 0
	valued=" ${options%%:*} "
	valued=${valued//[$'\n\t']/ }
	options=${options#*:}
	previous=${COMP_WORDS[COMP_CWORD - 1]}
	if [ "$COMP_CWORD" -gt "$first" ] && [[ $valued == *" $previous "* ]]; then
		mapfile -t COMPREPLY < <(_urds_value "$command" "$previous" "$word" "$urds")
		return 0
	fi
	case $word in
	-*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
	*)
		case $command in
		info) mapfile -t COMPREPLY < <(compgen -W "$(_urds_owned "$urds")" -- "$word") ;;
		ping | cat | doctor) mapfile -t COMPREPLY < <(compgen -A hostname -- "$word") ;;
		esac
		;;
	esac
}

complete -F _urds urds rds-ping rds-info rds-stress
