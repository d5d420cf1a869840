/* SPDX-License-Identifier: MIT
 *
 * Names of what is in a MAD's header: to the letter those of rdma-core 44, for programs that compare them.
 */
#include <endian.h>
#include <stddef.h>

#include <infiniband/umad_str.h>

struct name {
	unsigned value;
	const char *text;
};

static const char unknown[] = "<unknown>", unknown_method[] = "<unknown";

static const struct name classes[] = {
	{0x01, "Subn"}, {0x81, "Subn"}, {0x03, "SubnAdm"}, {0x04, "Perf"}, {0x05, "BM"}, {0x06, "DevMgt"}, {0x07, "ComMgt"},
	{0x08, "SNMP"}, {0x10, "DevAdm"}, {0x11, "BootMgt"}, {0x12, "BIS"}, {0x21, "CongestionManagment"},
};
static const struct name methods[] = {
	{0x01, "Get"}, {0x02, "Set"}, {0x81, "GetResp"}, {0x03, "Send"}, {0x05, "Trap"}, {0x06, "Report"},
	{0x86, "ReportResp"}, {0x07, "TrapRepress"},
};
static const struct name sa_methods[] = {
	{0x12, "GetTable"}, {0x92, "GetTableResp"}, {0x13, "GetTraceTable"}, {0x14, "GetMulti"}, {0x94, "GetMultiResp"},
	{0x15, "Delete"}, {0x95, "DeleteResp"},
};
static const struct name common_attributes[] = {{0x01, "Class Port Info"}, {0x02, "Notice"}, {0x03, "Inform Info"}};
static const struct name sm_attributes[] = {
	{0x10, "NodeDescription"}, {0x11, "NodeInfo"}, {0x12, "SwitchInfo"}, {0x14, "GUIDInfo"}, {0x15, "PortInfo"}, {0x16, "P_KeyTable"},
	{0x17, "SLtoVLMappingTable"}, {0x18, "VLArbitrationTable"}, {0x19, "LinearForwardingTable"}, {0x1a, "RandomForwardingTable"},
	{0x1b, "MulticastForwardingTable"}, {0x1c, "LinkSpeedWidthPairsTable"}, {0x1d, "VendorSpecificMadsTable"}, {0x1e, "HierarchyInfo"},
	{0x20, "SMInfo"}, {0x30, "VendorDiag"}, {0x31, "LedInfo"}, {0x32, "CableInfo"}, {0x33, "PortInfoExtended"},
};
static const struct name sa_attributes[] = {
	{0x11, "NodeRecord"}, {0x12, "PortInfoRecord"}, {0x13, "SLtoVLMappingTableRecord"}, {0x14, "SwitchInfoRecord"},
	{0x15, "LinearForwardingTableRecord"}, {0x16, "RandomForwardingTableRecord"}, {0x17, "MulticastForwardingTableRecord"},
	{0x18, "SMInfoRecord"}, {0x19, "LinkSpeedWidthPairsTableRecord"}, {0x20, "LinkRecord"}, {0x30, "GuidInfoRecord"},
	{0x31, "ServiceRecord"}, {0x33, "P_KeyTableRecord"}, {0x35, "PathRecord"},
	{0x36, "VLArbitrationTableRecord"}, {0x38, "MCMemberRecord"},
	{0x39, "TraceRecord"}, {0x3a, "MultiPathRecord"}, {0x3b, "ServiceAssociationRecord"}, {0x3c, "HierarchyInfoRecord"},
	{0x3d, "CableInfoRecord"}, {0x3e, "PortInfoExtendedRecord"}, {0xf3, "InformInfoRecord"},
};
static const struct name cm_attributes[] = {
	{0x10, "ConnectRequest"}, {0x11, "MsgRcptAck"}, {0x12, "ConnectReject"}, {0x13, "ConnectReply"}, {0x14, "ReadyToUse"},
	{0x15, "DisconnectRequest"}, {0x16, "DisconnectReply"}, {0x17, "ServiceIDResReq"}, {0x18, "ServiceIDResReqResp"},
	{0x19, "LoadAlternatePath"}, {0x1a, "AlternatePathResponse"}, {0x1b, "SuggestAlternatePath"}, {0x1c, "SuggestPathResponse"},
};
static const struct name statuses[] = {
	{0x04, "Bad Version"}, {0x08, "Method not supported"}, {0x0c, "Method/Attribute combo not supported"},
	{0x1c, "Invalid attribute/modifier field"},
};
static const struct name sa_statuses[] = {
	{1, "No Resources"}, {2, "Request Invalid"}, {3, "No Records"}, {4, "Too Many Records"}, {5, "Invalid GID"},
	{6, "Insufficient Components"}, {7, "Request Denied"}, {8, "Priority Suggested"},
};

static const char *find(const struct name *names, size_t count, unsigned value)
{
	for (size_t i = 0; i < count; i++)
		if (names[i].value == value)
			return names[i].text;
	return NULL;
}

#define FIND(names, value) find(names, sizeof(names) / sizeof((names)[0]), value)

static const char *or_else(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

const char *umad_class_str(uint8_t mgmt_class)
{
	if ((mgmt_class >= 0x09 && mgmt_class <= 0x0f) || (mgmt_class >= 0x30 && mgmt_class <= 0x4f))
		return "Vendor";
	if (mgmt_class >= 0x10 && mgmt_class <= 0x2f && !FIND(classes, mgmt_class))
		return "Application";
	return or_else(FIND(classes, mgmt_class), unknown);
}

const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	const char *text = FIND(methods, method);

	return or_else(!text && mgmt_class == 0x03 ? FIND(sa_methods, method) : text, unknown_method);
}

const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id)
{
	unsigned id = be16toh(attr_id);
	const char *text = FIND(common_attributes, id);

	if (!text && (mgmt_class == 0x01 || mgmt_class == 0x81))
		text = FIND(sm_attributes, id);
	else if (!text && mgmt_class == 0x03)
		text = FIND(sa_attributes, id);
	else if (!text && mgmt_class == 0x07)
		text = FIND(cm_attributes, id);
	return or_else(text, unknown);
}

const char *umad_common_mad_status_str(__be16 status)
{
	unsigned value = be16toh(status);

	if (value & 0x01)
		return "Busy";
	if (value & 0x02)
		return "Redirection required";
	return or_else(FIND(statuses, value & 0x1c), "Success");
}

const char *umad_sa_mad_status_str(__be16 status)
{
	unsigned value = be16toh(status) >> 8;

	return value ? or_else(FIND(sa_statuses, value), "Undefined Error") : "Success";
}
