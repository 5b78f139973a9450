// One or more TCP bulk flows over a dumbbell in ns-3, as `crates/sim/src/bin/dumbbell.rs` has them: 1 Gbit/s and 1 ms at
// either side, a bottleneck with a drop-tail queue of packets, NewReno with SACK, segments of 1,448 bytes, an
// acknowledgement for every second one. No queue disciplines and no traces but in the mode `count`, so that ns-3 is as
// fast as it can be.
//
// Built and run by `cargo xtask bench sim` with Debian's libns3-dev.
//
// ns3_dumbbell MODE SECONDS PAIRS RATE DELAY QUEUE: with MODE `time` it prints how long Simulator::Run took on its core, with `count`
// how many packet events there were: a packet handed to a device (MacTx), its last bit sent (PhyTxEnd), its arrival at the
// far end (PhyRxEnd).

#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static uint64_t g_events = 0;

static void Count(Ptr<const Packet>) { g_events++; }

// Seconds that this process was on a core: what else the machine does is not counted.
static double OnCore()
{
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int argc, char** argv)
{
    if (argc != 7)
    {
        std::fprintf(stderr, "usage: ns3_dumbbell time|count SECONDS PAIRS RATE DELAY QUEUE\n");
        return 1;
    }
    const bool counts = std::string(argv[1]) == "count";
    const double seconds = std::stod(argv[2]);
    const uint32_t pairs = std::stoul(argv[3]);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(2 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(2 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));

    NodeContainer left, right, routers;
    left.Create(pairs);
    right.Create(pairs);
    routers.Create(2);
    PointToPointHelper access, bottleneck;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", StringValue("1ms"));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    bottleneck.SetDeviceAttribute("DataRate", StringValue(argv[4]));
    bottleneck.SetChannelAttribute("Delay", StringValue(argv[5]));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(argv[6]));

    InternetStackHelper stack;
    stack.InstallAll();
    TrafficControlHelper traffic;
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    std::vector<NetDeviceContainer> devices;
    std::vector<Ipv4Address> readers;
    devices.push_back(bottleneck.Install(routers));
    addresses.Assign(devices.back());
    for (uint32_t i = 0; i < pairs; i++)
    {
        addresses.NewNetwork();
        devices.push_back(access.Install(left.Get(i), routers.Get(0)));
        addresses.Assign(devices.back());
        addresses.NewNetwork();
        devices.push_back(access.Install(right.Get(i), routers.Get(1)));
        readers.push_back(addresses.Assign(devices.back()).GetAddress(0));
    }
    for (const auto& pair : devices)
    {
        traffic.Uninstall(pair);
        for (uint32_t i = 0; counts && i < pair.GetN(); i++)
        {
            for (const char* what : {"MacTx", "PhyTxEnd", "PhyRxEnd"})
            {
                pair.Get(i)->TraceConnectWithoutContext(what, MakeCallback(&Count));
            }
        }
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    ApplicationContainer sinks;
    for (uint32_t i = 0; i < pairs; i++)
    {
        InetSocketAddress reader(readers[i], 5001);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5001));
        sinks.Add(sink.Install(right.Get(i)));
        BulkSendHelper bulk("ns3::TcpSocketFactory", reader);
        bulk.SetAttribute("MaxBytes", UintegerValue(0));
        bulk.SetAttribute("SendSize", UintegerValue(64 << 10));
        bulk.Install(left.Get(i));
    }
    Simulator::Stop(Seconds(seconds));
    const double began = OnCore();
    Simulator::Run();
    const double took = OnCore() - began;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); i++)
    {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::printf("{\"bytes\":%llu,\"events\":%llu,\"seconds\":%.6f,\"simulator_events\":%llu}\n",
                (unsigned long long)bytes, (unsigned long long)g_events, took,
                (unsigned long long)Simulator::GetEventCount());
    Simulator::Destroy();
    return 0;
}
