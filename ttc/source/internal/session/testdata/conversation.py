"""A program that uses OpenHands' SDK: SERVER FOLDER QUESTION ..."""

import os
import sys

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

server, folder, *questions = sys.argv[1:]
llm = LLM(model="openai/scripted", base_url=server + "/v1", api_key="sk-none", usage_id="agent", num_retries=0)
agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])
conversation = Conversation(agent=agent, workspace=os.getcwd(), persistence_dir=folder)
for question in questions:
    conversation.send_message(question)
    conversation.run()
