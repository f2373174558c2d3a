ip6tables -N rocecn-options
ip6tables -A rocecn-options -m frag -j DROP
ip6tables -A rocecn-options ! -p udp -j RETURN
ip6tables -A rocecn-options -p udp ! --dport 4791 -j RETURN
ip6tables -A rocecn-options -m bpf --bytecode '55,1 0 0 40,48 0 0 6,21 48 0 17,21 2 0 0,21 1 0 60,21 0 47 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 36 0 17,21 2 0 0,21 1 0 60,21 0 35 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 24 0 17,21 2 0 0,21 1 0 60,21 0 23 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 12 0 17,21 2 0 0,21 1 0 60,21 0 11 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 0 2 17,80 0 0 8,21 0 1 129,6 0 0 0,6 0 0 1' -j RETURN
ip6tables -A rocecn-options -j DROP
ip6tables -A FORWARD -m dst -j rocecn-options
ip6tables -A FORWARD -p udp -m multiport --dports 1021,1022 -j DROP
ip6tables -A FORWARD -p udp --dport 4791 -m bpf --bytecode '62,1 0 0 40,48 0 0 6,21 48 0 17,21 2 0 0,21 1 0 60,21 0 55 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 36 0 17,21 2 0 0,21 1 0 60,21 0 43 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 24 0 17,21 2 0 0,21 1 0 60,21 0 31 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 12 0 17,21 2 0 0,21 1 0 60,21 0 19 43,80 0 0 0,2 0 0 0,80 0 0 1,4 0 0 1,100 0 0 3,12 0 0 0,7 0 0 0,96 0 0 0,21 0 10 17,80 0 0 8,21 0 7 129,128 0 0 0,28 0 0 0,53 0 5 13,80 0 0 12,69 0 3 32,72 0 0 4,21 1 0 40,6 0 0 0,6 0 0 1' -j DROP
ip6tables -A FORWARD -p 4 -j DROP
ip6tables -A FORWARD -p 41 -j DROP
ip6tables -A FORWARD -p 47 -j DROP
ip6tables -A FORWARD -p 137 -j DROP
ip6tables -A FORWARD -p 143 -j DROP
ip6tables -A FORWARD -p udp -m multiport --dports 4789,8472,4790,6081,6635,2152,6080 -j DROP
iptables -A FORWARD -p udp -m multiport --dports 1021,1022 -j DROP
iptables -A FORWARD -p udp --dport 4791 -m bpf --bytecode '17,177 0 0 0,40 0 0 6,69 0 3 8192,128 0 0 0,28 0 0 0,53 0 10 9,80 0 0 8,21 0 7 129,128 0 0 0,28 0 0 0,53 0 5 13,80 0 0 12,69 0 3 32,72 0 0 4,21 1 0 40,6 0 0 0,6 0 0 1' -j DROP
iptables -A FORWARD -p 4 -j DROP
iptables -A FORWARD -p 41 -j DROP
iptables -A FORWARD -p 47 -j DROP
iptables -A FORWARD -p 137 -j DROP
iptables -A FORWARD -p 143 -j DROP
iptables -A FORWARD -p udp -m multiport --dports 4789,8472,4790,6081,6635,2152,6080 -j DROP
